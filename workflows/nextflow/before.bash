# The task's beforeScript: sourced by .command.run, outside of any container.
#
# Finds gpualert, and has every bash from here on read wrap.bash first.  It changes
# nothing where gpualert is not to be found.

GPUALERT_SHIM=$(command -v gpualert) || GPUALERT_SHIM=$GPUALERT_NEXTFLOW/../../bash/gpualert
if [[ -s $GPUALERT_SHIM && -r $GPUALERT_NEXTFLOW/wrap.bash ]]; then
    export GPUALERT_SHIM GPUALERT_BASH_ENV="${BASH_ENV-}" BASH_ENV="$GPUALERT_NEXTFLOW/wrap.bash"
else
    unset GPUALERT_SHIM
    echo "gpualert: this task is not watched: no gpualert on PATH, or no '$GPUALERT_NEXTFLOW/wrap.bash'" >&2
fi
