# What every bash of a Nextflow task reads first ($BASH_ENV): the one that is to run the
# task's script becomes `gpualert run -- bash OPTIONS .command.sh`.  The others, such as
# the `.command.run nxf_trace` around it and conda's, go on.
#
# It runs under the options that process.shell asks for (-e, -u, -C): nothing in here may
# fail or meet a variable that is not set.

if [[ $0 == .command.sh || $0 == */.command.sh ]]; then
    # Once: what the script starts is not for us.
    unset BASH_ENV
    [[ -z ${GPUALERT_BASH_ENV-} ]] || export BASH_ENV="$GPUALERT_BASH_ENV"
    __gpualert_words=()
    while IFS= read -r -d '' __gpualert_word; do
        __gpualert_words+=("$__gpualert_word")
    done <"/proc/$$/cmdline" || true
    if [[ ${#__gpualert_words[@]} -gt 1 && -s ${GPUALERT_SHIM-} ]]; then
        # Where there is no /bin/sh the script runs all the same.
        shopt -s execfail
        # 8 MB: Nextflow keeps the whole output itself.
        exec /bin/sh "$GPUALERT_SHIM" run --max-log 8M -- "$BASH" "${__gpualert_words[@]:1}" || true
        shopt -u execfail
    fi
    unset __gpualert_words __gpualert_word
fi
# The user's own, such as that of Lmod.
# shellcheck source=/dev/null
[[ ! -f ${GPUALERT_BASH_ENV-} ]] || . "$GPUALERT_BASH_ENV"
