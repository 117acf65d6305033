# shellcheck shell=bash
# Completion of gpualert in bash; no program is started for it.
#
# shellcheck disable=SC2250 # braces around every variable hide more than they show
# shellcheck disable=SC2310 # set -e is the caller's: here every failure is looked at

# Usage: __gpualert_complete COMMAND CURRENT PREVIOUS
__gpualert_complete() {
    local __gpualert_current=${2-}
    COMPREPLY=()
    if ((COMP_CWORD <= 1)); then
        __gpualert_offer_commands
        __gpualert_offer help version --help --version
        return 0
    fi
    case ${COMP_WORDS[1]} in
    run) __gpualert_complete_run ;;
    rules) ((COMP_CWORD > 2)) || __gpualert_offer list explain try ;;
    path) ((COMP_CWORD > 2)) || __gpualert_offer bash hooks snakemake nextflow format ;;
    init) __gpualert_offer bash zsh sh --install --uninstall ;;
    chain) ((COMP_CWORD > 2)) || __gpualert_offer start list show log stop resume retry-now ;;
    ledger) ((COMP_CWORD > 2)) || __gpualert_offer show exclude clear ;;
    outbox) ((COMP_CWORD > 2)) || __gpualert_offer list retry drop ;;
    help) ((COMP_CWORD > 2)) || __gpualert_offer_commands ;;
    *) ;; # files, from readline
    esac
    return 0
}

# Usage: __gpualert_offer_commands
__gpualert_offer_commands() {
    __gpualert_offer run runs show log workflow classify redact slurm rules ledger stats chain eval demo outbox \
        doctor config crontab path init tick ping post prune
}

# Usage: __gpualert_offer WORD...
#
# Offers those that begin as the word at the cursor does.  (compgen -W would split
# them by the caller's IFS.)
__gpualert_offer() {
    local __gpualert_word
    for __gpualert_word in "$@"; do
        [[ $__gpualert_word != "$__gpualert_current"* ]] || COMPREPLY+=("$__gpualert_word")
    done
}

# Usage: __gpualert_complete_run
#
# Options, their values, then CMD and its words.  readline makes three words of
# --name=value.
__gpualert_complete_run() {
    local __gpualert_at=2 __gpualert_option=''
    while ((__gpualert_at < COMP_CWORD)); do
        case ${COMP_WORDS[__gpualert_at]} in
        --)
            ((__gpualert_at += 1))
            break
            ;;
        --name | --to | --attach | --longer-than | --timeout | --max-log | --capture | --chain | --on-failure | --ping)
            __gpualert_option=${COMP_WORDS[__gpualert_at]}
            ((__gpualert_at += 1))
            [[ ${COMP_WORDS[__gpualert_at]-} != = ]] || ((__gpualert_at += 1))
            if ((__gpualert_at >= COMP_CWORD)); then
                __gpualert_complete_value "$__gpualert_option"
                return
            fi
            ((__gpualert_at += 1))
            ;;
        -*) ((__gpualert_at += 1)) ;;
        *) break ;;
        esac
    done
    if ((__gpualert_at == COMP_CWORD)) && [[ $__gpualert_current == -* && ${COMP_WORDS[COMP_CWORD - 1]} != -- ]]; then
        __gpualert_offer --name --to --attach --no-mail --no-log --longer-than --timeout --max-log --capture \
            --chain --on-failure --ping --verbose --help --
    else
        __gpualert_complete_command
    fi
}

# Usage: __gpualert_complete_value OPTION
#
# Nothing for --attach: then readline offers files.
__gpualert_complete_value() {
    [[ $__gpualert_current != = ]] || __gpualert_current=''
    case $1 in
    --capture) __gpualert_offer auto tee pty none ;;
    --longer-than) __gpualert_offer 60 10m 1h ;;
    *) ;;
    esac
}

# Usage: __gpualert_complete_command
#
# CMD, which begins at word __gpualert_at, as it would be completed without us.
__gpualert_complete_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$__gpualert_at" || :
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$__gpualert_at" || :
    elif ((__gpualert_at == COMP_CWORD)) && [[ $__gpualert_current != */* ]]; then
        mapfile -t COMPREPLY <<<"$(compgen -c -- "$__gpualert_current" || :)"
        [[ -n ${COMPREPLY[0]-} ]] || COMPREPLY=()
    fi
}

# A bash without programmable completion has no `complete`.
complete -o bashdefault -o default -F __gpualert_complete gpualert 2>/dev/null || :
