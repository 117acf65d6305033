"""Which outside alarm hears of a run, and what."""

from __future__ import annotations

from gpualert.cleaning import Cleaner
from gpualert.config import Settings
from gpualert.model import Run, RunStatus, Verdict
from gpualert.nesting import is_inner
from gpualert.wording import outcome, run_name, whereabouts

_BODY_LIMIT = 1000


def alarm_of(run: Run, settings: Settings) -> str:
    """Return the URL that is called about a run: its own, else that of the settings; "" where nobody is."""
    if run.options.ping_url:
        return run.options.ping_url
    return settings.ping_url if settings.ping_url and not run.engine.get("name") and not is_inner(run) else ""


def ping_start(run: Run, settings: Settings, limit_s: float) -> str:
    """Tell the alarm that a run has begun; return what went wrong, or ""."""
    return _ping(run, settings, "start", f"{run_name(run)} has begun", limit_s)


def ping_end(run: Run, verdict: Verdict, settings: Settings, limit_s: float) -> str:
    """Tell the alarm how a run has ended; return what went wrong, or ""."""
    said = f"{outcome(verdict)}: {whereabouts(run, run_name(run))}"
    return _ping(run, settings, event_of(run, verdict), said, limit_s)


def event_of(run: Run, verdict: Verdict) -> str:
    """Return what the alarm is told: "" for success, the exit status where it tells of a failure, else `fail`."""
    if verdict.status is RunStatus.SUCCEEDED:
        return ""
    return str(run.exit.status) if run.exit and run.exit.status else "fail"


def _ping(run: Run, settings: Settings, event: str, said: str, limit_s: float) -> str:
    url = alarm_of(run, settings)
    if not url:
        return ""
    from gpualert.notify.ping import ping  # costs 40 ms

    return ping(url, event, run.run_id, Cleaner(0).text(said, _BODY_LIMIT), limit_s)
