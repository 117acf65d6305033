"""A state folder, its settings and its clock: runs that end and are reported, and what came of their messages."""

from __future__ import annotations

import re
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from outcomes import body, messages
from reports import a_report, a_run, a_verdict
from smtp_server import MailServer

from gpualert.config import Settings, Smtp
from gpualert.model import Options, Run, Start, Verdict
from gpualert.notify.message import compose, envelope, message_id
from gpualert.notify.outbox import Summary, send_due
from gpualert.sending import Sender

NOW = 1_796_000_000.0


def to_server(port: int, **more: Any) -> Settings:
    """Return settings that send to a mail server on the loopback interface."""
    return Settings(mail="smtp", smtp=Smtp(host="127.0.0.1", port=port, security="none", timeout_s=5.0), **more)


def failed(cause: str = "cuda_oom") -> Verdict:
    return a_verdict(failure_class=cause, fingerprint=f"of-{cause}", title=f"It was {cause}")


@dataclass
class Site:
    """
    A state folder, its settings and its clock.

    Attributes:
        now: The time, in seconds since 1970 UTC.
        runs: How many have ended.
    """

    state: Path
    now: float = NOW
    runs: int = 0
    settings: Settings = field(default_factory=Settings)

    def end(
        self, verdict: Verdict, *, send: bool = True, files: Any = (), to: tuple[str, ...] = (), **start: Any
    ) -> str:
        """Let a run end and be reported; return its id."""
        run = self._run(to, start)
        named = message_id(run.run_id, verdict.status)
        message = compose(a_report(run, verdict, artifacts=files), files, envelope(self.settings), named, NOW)
        (run.path / "message.eml").write_bytes(message)
        sender = self._sender(run, verdict)
        sender.queue(message, addressed=True)
        if send:
            assert sender.send(20, others_too=True) == []
        return run.run_id

    def end_silently(self, verdict: Verdict, **start: Any) -> None:
        """Let a run end that sends no message."""
        assert self._sender(self._run((), start), verdict).skip(20, others_too=True) == []

    def _run(self, to: tuple[str, ...], start: dict[str, Any]) -> Run:
        self.runs += 1
        host = f"node{self.runs % 4:02d}"
        run_id = f"20261130T{self.runs:06d}Z-{host}-{self.runs:08x}"
        path = self.state / "runs" / run_id
        path.mkdir(parents=True, mode=0o700)
        started = replace(Start(run_id, host, 4711, 1, NOW), **start)
        return a_run(path=path, run_id=run_id, start=started, options=Options(to=to))

    def _sender(self, run: Run, verdict: Verdict) -> Sender:
        return Sender(run, verdict, self.settings, lambda: self.now)

    def tick(self, after_s: float = 0.0) -> Summary:
        self.now += after_s
        return send_due(self.state, self.settings, self.now, 20)

    def told(self) -> Counter[str]:
        """Return how often each run was told of, by itself or in a digest."""
        return Counter(run for mail in messages(self.state) for run in runs_in(mail))

    def told_by(self, server: MailServer) -> Counter[str]:
        """Return how often each run was told of to a mail server."""
        mails = [message_from_bytes(got.content, policy=default) for got in server.received]
        return Counter(run for mail in mails if isinstance(mail, EmailMessage) for run in runs_in(mail))

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in messages(self.state)]


def runs_in(mail: EmailMessage) -> list[str]:
    """Return the runs that a message tells of."""
    if mail["X-Gpualert-Run"]:
        return [str(mail["X-Gpualert-Run"])]
    lists = [part for part in mail.iter_attachments() if part.get_filename() == "runs.tsv"]
    if lists:
        return [line.rpartition("/")[2] for line in lists[0].get_content().splitlines()[1:]]
    return re.findall(r"(?:^Runs   |^       )(2026\S+)$", body(mail), re.MULTILINE)


@contextmanager
def no_room_for(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond `n_bytes`, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
