# Completion of gpualert in zsh; no program is started for it.

# Usage: __gpualert_complete
__gpualert_complete() {
    local curcontext=$curcontext state state_descr line
    typeset -A opt_args
    local -a subcommands=(
        'run:run a command, keep its log, report its end'
        'runs:list runs, the newest last'
        'show:show what happened to a run'
        'log:print the log of a run'
        'workflow:show how the jobs of a workflow went'
        'classify:say why a log failed'
        'redact:show which secrets would be removed from a file'
        'slurm:report a Slurm job, wrapped or not'
        'rules:list, explain and try the failure rules'
        'ledger:nodes that runs failed on; leave them out'
        'stats:count runs and failures by class and node'
        'chain:try a command again where its cause of failure allows it'
        'eval:say how often verdicts are right'
        'demo:run a small failing job through everything'
        'outbox:look at messages that wait, try them again, or drop them'
        'doctor:check this installation'
        'config:show every setting'
        'crontab:print the line for crontab'
        'path:say where files lie'
        'init:print the shell function for an rc file, or add the line to it'
        'tick:do what waits'
        'ping:tell an outside alarm of a start'
        'post:report an ended run'
        'prune:remove old runs'
        'help:explain a command'
        'version:print the version'
    )
    _arguments -C '1: :->command' '*:: :->words' && return
    case $state in
    command) _describe -t commands 'gpualert command' subcommands ;;
    words)
        case $words[1] in
        run) __gpualert_complete_run ;;
        rules) _arguments '1:what:(list explain try)' '*:file:_files' ;;
        path) _arguments '1:what:(bash hooks snakemake nextflow format)' ;;
        chain) _arguments '1:what:(start list show log stop resume retry-now)' '*:word:_files' ;;
        ledger) _arguments '1:what:(show exclude clear)' ;;
        outbox) _arguments '1:what:(list retry drop)' ;;
        init) _arguments '(--uninstall)--install[add the line to an rc file]' \
            '(--install)--uninstall[remove it]' '1:shell:(bash zsh sh)' ;;
        help) _describe -t commands 'gpualert command' subcommands ;;
        *) _files ;;
        esac
        ;;
    esac
}

# Usage: __gpualert_complete_run
#
# Options, then CMD as it would be completed without us.
__gpualert_complete_run() {
    _arguments -S -A '-*' \
        '--name[what the message calls the run]:name: ' \
        '*--to[who gets the message]:address: ' \
        '*--attach[files to attach]:file:_files' \
        '--no-mail[record and classify, send nothing]' \
        '--no-log[the message holds the verdict and where the log is, no more]' \
        '--longer-than[no message about a run shorter than this]:time:(60 10m 1h)' \
        '--timeout[end the command after this]:time: ' \
        '--max-log[cap our copy of the output]:size:(64K 10M 2G)' \
        '--capture[how output is copied]:how:(auto tee pty none)' \
        '--chain[the retry chain this run belongs to]:chain: ' \
        '--on-failure[a program to start when the command has failed]:hook:_files' \
        '--ping[an outside alarm to tell of the start and the end]:URL: ' \
        '--verbose[say where the run is kept]' \
        '(- : *)--help[list the options]' \
        '*:: :_normal'
}

if (( ${+functions[compdef]} )); then
    compdef __gpualert_complete gpualert
fi
