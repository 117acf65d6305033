/* Preloaded, it makes every file system one without locks. */

#include <errno.h>
#include <stdlib.h>

int flock(int fd, int operation) {
    (void)fd, (void)operation;
    errno = atoi(getenv("NO_LOCKS"));
    return -1;
}
