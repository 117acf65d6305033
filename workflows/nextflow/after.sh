#!/bin/sh
# Usage: after.sh STATUS
#
# The task's afterScript: leaves `ACTION CLASS CONFIDENCE` in the file .gpualert of a failed
# task's folder, for errorStrategy: what the shim's run was judged to be or, where the
# script ran in a container and so out of the shim's reach, what its output says.
#
# shellcheck disable=SC2250 # braces around every variable hide more than they show

status=${1:-0}
folder=${GPUALERT_TASK_FOLDER-}
[ "$status" != 0 ] && [ -d "$folder" ] && [ -n "${GPUALERT_SHIM-}" ] || exit 0

# Usage: value KEY <JSON
#
# Prints the first value of that key: a plain word, and no text of a job can hold the key
# unescaped.
value() { sed -n "s/.*\"$1\": *\"\\([a-z_]*\\)\".*/\\1/p" | head -n 1; }

state=${GPUALERT_HOME:-${XDG_STATE_HOME:-${HOME-}/.local/state}/gpualert}
record=$state/workflows/${GPUALERT_ENGINE_WORKFLOW-}/${GPUALERT_ENGINE_KEY-}.jsonl
verdict=$(tail -n 1 "$record" 2>/dev/null | grep -F "\"attempt\":${GPUALERT_ENGINE_ATTEMPT-},")
if [ -z "$verdict" ]; then
    bounded=''
    ! command -v timeout >/dev/null || bounded='timeout 20'
    verdict=$(cat "$folder/.command.out" "$folder/.command.err" 2>/dev/null |
        $bounded sh "$GPUALERT_SHIM" classify --json --status "$status" 2>/dev/null)
fi
words=''
for key in action class confidence; do
    words="$words $(printf '%s\n' "$verdict" | value "$key" || true)"
done
case $words in
*' ' | *'  '*) ;;
*) printf '%s\n' "${words# }" >"$folder/.gpualert.new" && mv -f "$folder/.gpualert.new" "$folder/.gpualert" ;;
esac
