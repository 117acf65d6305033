# shellcheck shell=sh
# gpualert in the shell of a person: what `gpualert init bash|zsh|sh` has sourced.
#
# That line has set __gpualert_script to the script's path.  Here it becomes a
# function, so that the script need not be on PATH, and so do the programs named in
# GPUALERT_WRAP.  What runs a job is the script alone, a program of its own: nothing
# in this shell (aliases, functions, traps, options, IFS, readonly names) reaches it,
# and this shell keeps nothing but names that begin with gpualert, __gpualert_ and
# GPUALERT_, and the functions asked for.
#
# A function in the background is a process of its own in front of the script: there
# `kill %1` reaches the job, and `kill $!` only that process.  zsh forgets the status
# of every function that ^Z stopped and `fg` continued; the record has it.
#
# shellcheck disable=SC2250 # braces around every variable hide more than they show
# shellcheck disable=SC2310,SC2312 # set -e is the caller's: here every failure is looked at

# The version these functions came with: `gpualert doctor` compares it with its own.
__gpualert_version=0.1.0
: "${__gpualert_script:=}"
# What functions below set: zsh can be told to complain of names first set in one.
__gpualert_last='' __gpualert_longer_than=''

# The name of an alias cannot become a function's.
\unalias gpualert 2>/dev/null || :

# Usage: gpualert WORD...
#
# The script; where it is gone, whatever is on PATH.
gpualert() {
    if __gpualert_is_there; then
        \set -- "$__gpualert_script" "$@"
    else
        \set -- gpualert "$@"
    fi
    if [ "${2-}" = doctor ]; then
        \set -- env "GPUALERT_FUNCTION=${__gpualert_version-} ${__gpualert_script-}" "$@"
    fi
    # `|| return`: a caller's ERR trap sees one failure, not one in here and one out there.
    \command "$@" || return
}

# Usage: __gpualert_is_there
__gpualert_is_there() {
    [ ! -x "${__gpualert_script-}" ] || return 0
    __gpualert_say "cannot find '${__gpualert_script-}', which this shell calls gpualert: open a new shell, or install it again"
    return 1
}

# Usage: __gpualert_say TEXT
__gpualert_say() { \printf 'gpualert: %s\n' "$1" >&2 || :; }

# Usage: __gpualert_run_wrapped PROGRAM [ARG...]
#
# PROGRAM through `gpualert run`, and as it is where somebody only asks for help or
# where gpualert is gone.  Runs shorter than GPUALERT_LONGER_THAN (60 s) send no message.
__gpualert_run_wrapped() {
    if __gpualert_asks_only "$@" || ! __gpualert_is_there; then
        \command "$@" || return
        return 0
    fi
    __gpualert_longer_than=${GPUALERT_LONGER_THAN:-60}
    case ${__gpualert_longer_than%[smhd]} in
    '' | *[!0-9]*)
        __gpualert_say "GPUALERT_LONGER_THAN: '$__gpualert_longer_than' is no time such as 90, 15m or 3h: 60 s it is"
        __gpualert_longer_than=60
        ;;
    *) ;;
    esac
    \command "$__gpualert_script" run --longer-than "$__gpualert_longer_than" -- "$@" || return
}

# Usage: __gpualert_asks_only PROGRAM [ARG...]
#
# Whether this is a question.  Only the first and the last word count: in between,
# `-h 256` and `--version 2` belong to somebody's training script.
__gpualert_asks_only() {
    case ${2-} in -h | --help | --version | help | version) return 0 ;; *) ;; esac
    \eval "__gpualert_last=\${$#}"
    case $__gpualert_last in -h | --help | --version) return 0 ;; *) return 1 ;; esac
}

# Usage: __gpualert_print_functions
#
# Prints the code that makes functions of the programs in GPUALERT_WRAP.  A word that
# cannot be one, or that the shell itself needs, is skipped: in some shells it would
# be the end of the shell.  Runs in a subshell, so that it may change things: without
# a PATH, an alias and a function of that name, only what is part of the shell is found.
__gpualert_print_functions() {
    # Split by hand: IFS is the caller's, and zsh does not split.
    __gpualert_rest="$GPUALERT_WRAP "
    while [ -n "$__gpualert_rest" ]; do
        __gpualert_name=${__gpualert_rest%%[[:space:]]*}
        __gpualert_rest=${__gpualert_rest#*[[:space:]]}
        case $__gpualert_name in
        '') continue ;;
        [!A-Za-z_]* | *[!A-Za-z0-9_]* | gpualert | __gpualert_*)
            __gpualert_say "GPUALERT_WRAP: '$__gpualert_name' cannot be the name of a function: skipped"
            continue
            ;;
        *) ;;
        esac
        \unalias "$__gpualert_name" 2>/dev/null || :
        \unset -f "$__gpualert_name" 2>/dev/null || :
        if PATH='' \command -v "$__gpualert_name" >/dev/null 2>&1; then
            __gpualert_say "GPUALERT_WRAP: '$__gpualert_name' belongs to the shell: skipped"
            continue
        fi
        \printf '\\unalias %s 2>/dev/null || :\n' "$__gpualert_name"
        # A second eval: not before the alias is gone may the name be read.
        \printf "\\\\eval '%s() { __gpualert_run_wrapped %s \"\$@\" || return; }'\n" "$__gpualert_name" "$__gpualert_name"
    done
}

[ -z "${GPUALERT_WRAP-}" ] || \eval "$(__gpualert_print_functions)"
