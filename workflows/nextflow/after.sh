#!/bin/sh
# Usage: after.sh STATUS
#
# The task's afterScript: leaves `ACTION CLASS CONFIDENCE` in the file .gpualert of a failed
# task's folder, for errorStrategy: what its run was judged to be.  A script that ran in
# a container, and so out of the shim's reach, is made such a run of: what it said is
# said again, through the shim.
#
# shellcheck disable=SC2250 # braces around every variable hide more than they show

status=${1:-0}
folder=${GPUALERT_TASK_FOLDER-}
[ -d "$folder" ] && [ -n "${GPUALERT_SHIM-}" ] || exit 0

# Usage: read_verdict
#
# Sets verdict to the line about this attempt, empty where there is none.
state=${GPUALERT_HOME:-${XDG_STATE_HOME:-${HOME-}/.local/state}/gpualert}
record=$state/workflows/${GPUALERT_ENGINE_WORKFLOW-}/${GPUALERT_ENGINE_KEY-}.jsonl
read_verdict() {
    verdict=$(tail -n 1 "$record" 2>/dev/null | grep -F "\"attempt\":${GPUALERT_ENGINE_ATTEMPT-},")
}

# Usage: value KEY <JSON
#
# Prints the value of that key: a plain word, and no text of a job can hold the key
# unescaped.
value() { sed -n "s/.*\"$1\": *\"\\([a-z_]*\\)\".*/\\1/p"; }

# Usage: replay
replay() (
    cd "$folder" || exit
    set -- sh "$GPUALERT_SHIM" run -- sh "${0%/*}/replay.sh" "$status"
    ! command -v timeout || set -- timeout 20 "$@"
    exec "$@"
) >/dev/null 2>&1

if [ "$status" = 0 ]; then
    # A task that passes at once needs no record; one that failed before has recovered.
    [ "${GPUALERT_ENGINE_ATTEMPT:-1}" = 1 ] || replay
    exit 0
fi
read_verdict
if [ -z "$verdict" ]; then
    replay
    read_verdict
fi
words=''
for key in action class confidence; do
    words="$words $(printf '%s\n' "$verdict" | value "$key" || true)"
done
case $words in
*' ' | *'  '*) ;;
*) printf '%s\n' "${words# }" >"$folder/.gpualert.new" && mv -f "$folder/.gpualert.new" "$folder/.gpualert" ;;
esac
