#!/bin/sh
# Usage: follow.sh PID WORKFLOW
#
# Started where Nextflow runs, as process PID, before its first task: waits for its end, and
# sends the one message about the workflow.
#
# shellcheck disable=SC2250 # braces around every variable hide more than they show

exec </dev/null >/dev/null 2>&1
state=${GPUALERT_HOME:-${XDG_STATE_HOME:-${HOME-}/.local/state}/gpualert}
shim=$(command -v gpualert) || shim=${0%/*}/../../bash/gpualert
(umask 077 && mkdir -p "$state/workflows" && mkdir "$state/workflows/$2") || exit 0
# Not with Nextflow's terminal: a ^C there is not for us.
! command -v setsid || set -- "$1" "$2" setsid
pid=$1 workflow=$2
shift 2
exec "$@" sh "$shim" workflow --follow "$pid" --engine nextflow "$workflow"
