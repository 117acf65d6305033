"""
Runs that one launcher started together: who belongs to a group, who has reported, who is missing.

    groups/<group>/members/<rank>   a link to the run that reported as this rank; made once, never changed
    groups/<group>/leader           a link to the run that lends its id to the group's message

A name may be used again (`torchrun --rdzv-id mine`, day after day): its next group is `<group>~2`.  Links are only ever
read, never followed.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from gpualert.errors import RunDirError, UnsafeFileError
from gpualert.files import make_private_folder, read_regular
from gpualert.group.launcher import NAME, Membership, membership
from gpualert.jsonfiles import read_json, write_json
from gpualert.model import Run, RunStatus
from gpualert.nesting import outer_runs
from gpualert.rundir import read_run
from gpualert.state import STAMP_LENGTH, run_paths, state_of

# Runs of one group overlap in time, give or take clocks that differ and tasks that start late.
_SLACK_S = 60.0
_NEAR_S = 900.0  # people who start one torchrun a node by hand; Source: torchrun waits 600 s for the others
_HOUR_S = 3600.0
_ASKED = 4  # members that say when their group was; they all overlap
_START_BYTES, _ARGV_BYTES = 64 << 10, 64 << 10


def is_group(path: Path) -> bool:
    """Say whether a path is that of a group, not of a run."""
    return path.parent.name == "groups"


def own_membership(run: Run) -> Membership | None:
    """Say which group a run reports to; None for one that stands alone, or is a part of a member."""
    mine = membership(run)
    inside = mine and any((found := membership(outer)) and found.group == mine.group for outer in outer_runs(run))
    return None if inside else mine


def group_paths(state: Path) -> list[Path]:
    """Return the folders of the groups in a state folder, by name."""
    try:
        return sorted(path for path in (state / "groups").iterdir() if (path / "members").is_dir())
    except OSError:
        return []


def find_group(word: str, states: Iterable[Path]) -> Path | None:
    """Return the group that a user means by its name or its folder; None where that is none."""
    folders = [Path(word).absolute()] if "/" in word else [state / "groups" / word for state in states]
    return next((folder for folder in folders if is_group(folder) and (folder / "members").is_dir()), None)


def remove_empty_groups(state: Path) -> None:
    """Remove the folders of the groups whose runs have all been removed."""
    for folder in group_paths(state):
        links = list((folder / "members").iterdir())
        if links and not any(_run_path(folder, _target(link)).exists() for link in links):
            shutil.rmtree(folder, ignore_errors=True)


def join(run: Run, mine: Membership) -> Path:
    """
    Report a run to its group; return the group's folder.  A run that did so before changes nothing.

    Raises:
        OSError: The state folder cannot be written.
    """
    folders = state_of(run.path) / "groups"
    make_private_folder(folders)
    slot = run.path.name if mine.rank is None else str(mine.rank)
    while True:
        found = _of_name(folders, mine.group)
        before = (folder for folder in found if _target(folder / "members" / slot) == run.path.name)
        folder = next(before, None) or next((f for f in found if _fits(f, run) and _take(f, slot, run)), None)
        if folder:
            _link(folder / "leader", run)
            return folder
        make_private_folder(_following(folders, mine.group, found) / "members")


def _of_name(folders: Path, group: str) -> list[Path]:
    """Return the groups of that name, oldest first."""
    numbered = [(int(path.name.partition("~")[2] or 1), path) for path in folders.glob(f"{group}*") if _is(path, group)]
    return [path for _, path in sorted(numbered) if (path / "members").is_dir()]


def _is(path: Path, group: str) -> bool:
    name, tilde, number = path.name.partition("~")
    return name == group and (not tilde or number.isdecimal())


def _following(folders: Path, group: str, found: Sequence[Path]) -> Path:
    """Return the folder for the next group of that name."""
    if not found:
        return folders / group
    return folders / f"{group}~{int(found[-1].name.partition('~')[2] or 1) + 1}"


def _fits(folder: Path, run: Run) -> bool:
    """Say whether a run can be one of a group: all of a group begin within an hour, and run at one time."""
    links = list(itertools.islice((folder / "members").iterdir(), _ASKED))
    if run.start and any(not _is_near(_target(link), run.start.started_at) for link in links):
        return False  # as cheap as that, since a name may have been used a hundred times
    return all(_overlap(run, other) for other in itertools.islice(_linked(folder), _ASKED))


def _is_near(run_id: str, at_s: float) -> bool:
    return _stamp(at_s - _HOUR_S) <= run_id[:STAMP_LENGTH] <= _stamp(at_s + _HOUR_S)


def _overlap(one: Run, other: Run) -> bool:
    return _began_before_end(one, other) and _began_before_end(other, one)


def _began_before_end(one: Run, other: Run) -> bool:
    return not one.start or not other.exit or one.start.started_at <= other.exit.ended_at + _SLACK_S


def _take(folder: Path, slot: str, run: Run) -> bool:
    """Be this rank of a group; False where another run is."""
    _link(folder / "members" / slot, run)
    return _target(folder / "members" / slot) == run.path.name


def _link(path: Path, run: Run) -> None:
    """Point to a run, unless there is such a link already.  A link is made in one step, and only once."""
    up = "../" * (len(path.parts) - len(state_of(run.path).parts) - 1)
    with suppress(FileExistsError):
        path.symlink_to(f"{up}runs/{run.path.name}")


def _target(link: Path) -> str:
    """Return the name of the run that a link points to; "" where there is none."""
    try:
        return link.readlink().name
    except OSError:
        return ""


def point_to(run: Run, folder: Path) -> None:
    """
    Note in the verdict on a run that there is one on its group.

    Raises:
        OSError, UnsafeFileError, ValueError: It cannot be read or written.
    """
    path = run.path / "verdict.json"
    verdict = read_json(path)
    if verdict.get("group") != folder.name:
        write_json(path, {**verdict, "group": folder.name})


def group_of(run: Run) -> Path | None:
    """Return the folder of the group that a run has reported to; None where it did not, or stands alone."""
    try:
        name = read_json(run.path / "verdict.json").get("group")
    except (OSError, ValueError, UnsafeFileError):
        return None
    if not isinstance(name, str) or not NAME.fullmatch(name.partition("~")[0]) or "/" in name:
        return None
    folder = state_of(run.path) / "groups" / name
    return folder if (folder / "members").is_dir() else None


def count_joined(folder: Path) -> int:
    """Return how many members have reported."""
    return sum(1 for _ in (folder / "members").iterdir())


def joined(folder: Path) -> list[Run]:
    """Return the members that have reported, by rank; one whose run directory cannot be read is left out."""
    return list(_linked(folder))


def _linked(folder: Path) -> Iterator[Run]:
    links = sorted((folder / "members").iterdir(), key=lambda link: (len(link.name), link.name))
    for link in links:
        with suppress(RunDirError):
            yield read_run(_run_path(folder, _target(link)))


def _run_path(folder: Path, name: str) -> Path:
    return state_of(folder) / "runs" / (name or "unknown")


def leader_id(folder: Path) -> str:
    """Return the id of the run that lends its name to the group's message: the first that reported."""
    return _target(folder / "leader") or next((run.run_id for run in _linked(folder)), folder.name)


def unreported(folder: Path, members: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs of a group that began and have not reported (yet), in the order of their names."""
    # Only the runs that began near in time are looked at: a state folder may hold tens of thousands.
    mine = next((found for run in members if (found := membership(run))), None)
    begins = [run.start.started_at for run in members if run.start]
    if not mine or not begins:
        return
    low, high = _stamp(min(begins) - _NEAR_S), _stamp(max(begins) + _NEAR_S)
    known = {run.path.name for run in members}
    for path in run_paths([state_of(folder)]):
        if low <= path.name[:STAMP_LENGTH] <= high and path.name not in known and _mentions(path, mine.token):
            with suppress(RunDirError):
                run = read_run(path)
                found = own_membership(run)
                if found and found.group == mine.group and all(_overlap(run, other) for other in members[:_ASKED]):
                    yield run


def _stamp(at_s: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))


def _mentions(run_path: Path, token: str) -> bool:
    """Say whether a text stands in the record of a run: a tenth of the work of reading all of it."""
    with suppress(OSError, UnsafeFileError):
        record = read_regular(run_path / "start", _START_BYTES) + read_regular(run_path / "argv", _ARGV_BYTES)
        return token.encode() in record
    return False


def is_bad(run_path: Path) -> bool:
    """Say whether a run that reported did not end well."""
    try:
        return read_json(run_path / "verdict.json").get("status") != RunStatus.SUCCEEDED.value
    except (OSError, ValueError, UnsafeFileError):
        return True  # damaged: that is no success


class Turn(Enum):
    """What whoever looks at a group does next."""

    REPORT = "report"
    WAIT = "wait"
    LEAVE = "leave"


def whose_turn(reported: int, size: int | None, *, bad: bool, waited: bool, is_under_way: Callable[[], bool]) -> Turn:
    """
    Say what to do about a group.

    Args:
        reported, size: How many members have reported, and how many there are; None where nobody knows.
        bad: Whether one of those that reported did not end well.
        waited: Whether we have waited for the others for as long as is sensible.
        is_under_way: Tells whether members have begun and not reported; asked only where it matters.
    """
    if size is not None and reported >= size:
        return Turn.REPORT
    if not bad and is_under_way():
        return Turn.LEAVE  # they report for all
    return Turn.REPORT if waited else Turn.WAIT
