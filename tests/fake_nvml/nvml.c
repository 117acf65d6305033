/* A stand-in for libnvidia-ml.so.1: two cards, and the troubles that FAKE_NVML names (mismatch, hang, crash, lost). */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18 };
static char cards[2];

static int trouble(const char *name) {
    const char *wanted = getenv("FAKE_NVML");
    return wanted && !strcmp(wanted, name);
}

static int of(char *card, int result) { return trouble("lost") && card == &cards[1] ? GPU_IS_LOST : result; }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (trouble("hang")) pause();
    if (trouble("crash")) abort();
    return trouble("mismatch") ? LIB_RM_VERSION_MISMATCH : OK;
}
const char *nvmlErrorString(int result) {
    switch (result) {
    case NOT_SUPPORTED: return "Not Supported";
    case GPU_IS_LOST: return "GPU is lost";
    case LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "550.54.15", size); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, char **card) { *card = &cards[index]; return OK; }
int nvmlDeviceGetName(char *card, char *text, unsigned size) { strncpy(text, "NVIDIA A100", size); return of(card, OK); }
int nvmlDeviceGetUUID(char *card, char *text, unsigned size) { strncpy(text, "GPU-1", size); return of(card, OK); }
int nvmlDeviceGetPciInfo_v3(char *card, char *info) {
    strcpy(info + 16 + 5 * sizeof(unsigned), "00000000:65:00.0");
    return of(card, OK);
}
int nvmlDeviceGetMemoryInfo(char *card, unsigned long long *total_free_used) {
    total_free_used[0] = 80ULL << 30;
    total_free_used[1] = 1ULL << 30;
    total_free_used[2] = 79ULL << 30;
    return of(card, OK);
}
int nvmlDeviceGetUtilizationRates(char *card, unsigned *gpu_memory) { gpu_memory[0] = 97; return of(card, OK); }
int nvmlDeviceGetTemperature(char *card, int sensor, unsigned *celsius) {
    (void)sensor;
    *celsius = 64;
    return of(card, OK);
}
int nvmlDeviceGetPowerUsage(char *card, unsigned *milliwatts) { *milliwatts = 301500; return of(card, OK); }
int nvmlDeviceGetTotalEccErrors(char *card, int type, int counter, unsigned long long *count) {
    (void)type, (void)counter;
    *count = 3;
    return of(card, OK);
}
/* As on a card without row remapping. */
int nvmlDeviceGetRemappedRows(char *card, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    (void)a, (void)b, (void)c, (void)d;
    return of(card, NOT_SUPPORTED);
}
