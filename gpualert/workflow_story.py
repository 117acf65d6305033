"""What happened to the jobs of a workflow: attempts put together from runs and from what the engine told; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from gpualert.model import Verdict


@dataclass(frozen=True)
class Attempt:
    """
    One failed attempt of a job.

    Attributes:
        key, rule, wildcards: Which job it was of.
        number: As the engine counts, from 1.
        exit_status: None where nobody saw it.
        node: Where it ran, or "".
        external_job: The scheduler's job, such as `Slurm 21.0`, or "".
        run_id: Its run, or "" where only the engine told of it.
        logs: Its log files with their sizes in bytes; None for a size that is not known.
        said: The engine's words.
    """

    key: str
    rule: str
    wildcards: str
    number: int
    ended_at: float
    exit_status: int | None
    verdict: Verdict
    node: str = ""
    external_job: str = ""
    run_id: str = ""
    logs: tuple[tuple[str, int | None], ...] = ()
    said: str = ""


@dataclass(frozen=True)
class JobStory:
    """
    A job that failed at least once.

    Attributes:
        attempts: Those that failed, in their order; never empty.
        passed_at: When it passed after all, or None.
        is_gated: Whether it was not tried again because only a person can mend it.
    """

    attempts: tuple[Attempt, ...]
    passed_at: float | None
    is_gated: bool = False

    @property
    def last(self) -> Attempt:
        """The last failure."""
        return self.attempts[-1]

    @property
    def name(self) -> str:
        """Rule and wildcards."""
        return " ".join(filter(None, (self.last.rule, self.last.wildcards)))

    @property
    def tries(self) -> int:
        """How often it was tried, the try that passed included."""
        return len(self.attempts) + (self.passed_at is not None)


@dataclass(frozen=True)
class Story:
    """
    What happened in a workflow.

    Attributes:
        workflow: Its id.
        name: Its file, such as a Snakefile.
        ended_at: None where its process was killed, or still runs.
        running: Whether it has not ended.
        done, total: How many jobs went well, of how many; None where nobody counted.
        jobs: Those that failed at least once, the first failure first.
        not_read: What could not be looked at.
    """

    workflow: str
    engine: str
    name: str
    cwd: str
    host: str
    started_at: float
    ended_at: float | None
    running: bool
    done: int | None
    total: int | None
    jobs: tuple[JobStory, ...]
    not_read: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[JobStory, ...]:
        """The jobs that never passed."""
        return tuple(job for job in self.jobs if job.passed_at is None)

    @property
    def recovered(self) -> tuple[JobStory, ...]:
        """The jobs that passed after a failure."""
        return tuple(job for job in self.jobs if job.passed_at is not None)

    @property
    def causes(self) -> tuple[tuple[str, int], ...]:
        """The classes of the failed jobs with their counts, most frequent first."""
        return tuple(Counter(job.last.verdict.failure_class for job in self.failed).most_common())


def jobs_of(
    attempts: Iterable[Attempt], passed: Mapping[str, float], gated: Container[str] = ()
) -> tuple[JobStory, ...]:
    """
    Put the attempts of each job together.

    Args:
        passed: When a job passed, by its key; it counts only after the job's last failure.
        gated: The keys of jobs that were not tried again.
    """
    of_job: dict[str, list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.ended_at):
        of_job.setdefault(attempt.key, []).append(attempt)
    return tuple(
        JobStory(tuple(alike), at if (at := passed.get(key, 0.0)) >= alike[-1].ended_at else None, key in gated)
        for key, alike in of_job.items()
    )
