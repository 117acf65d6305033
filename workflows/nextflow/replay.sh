#!/bin/sh
# Usage: replay.sh STATUS
#
# Says the end of what the task in this folder said, and ends as it ended.

tail -c 4000000 .command.out
tail -c 4000000 .command.err >&2
exit "$1"
