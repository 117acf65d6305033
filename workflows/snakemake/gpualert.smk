# One line in a Snakefile, before or after its rules:
#
#     include: "/path/that/gpualert/path/snakemake/prints/gpualert.smk"
#
# Every shell command of every rule then runs through `gpualert run`, which knows rule,
# wildcards, job, log and attempt, and one message tells how the workflow went.  Where
# that cannot be, the workflow is told so once and runs as ever.
import sys as _gpualert_sys

try:
    from snakemake_logger_plugin_gpualert import follow as _gpualert_follow

    _gpualert_follow(workflow)
except Exception as _gpualert_error:
    print(f"gpualert: this workflow runs unwatched: {_gpualert_error}", file=_gpualert_sys.stderr)
