"""What a run knows of the group that it belongs to: by its record, or by the options of its launcher."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpualert.model import Run

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}")
_RENDEZVOUS = re.compile(r"--(rdzv[-_]id|rdzv[-_]endpoint|nnodes|node[-_]rank)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True)
class Membership:
    """
    What a run knows of its group.

    Attributes:
        group: What the members have in common.
        token: Text that stands in the record of each member.
        size: How many they are; None where that is not fixed.
        rank: Which of them this is; None where it does not know.
        word: What the rank counts: `rank` for a process, `node` for a launcher that starts the ranks of one node.
    """

    group: str
    token: str
    size: int | None
    rank: int | None
    word: str = "rank"

    @property
    def label(self) -> str:
        """What a person calls this member; "" where it has no number."""
        return f"{self.word} {self.rank}" if self.rank is not None else ""


def membership(run: Run) -> Membership | None:
    """Say which group a run belongs to; None for one that stands alone."""
    if not run.start:
        return None
    launcher = _launcher_options(run.argv)
    word = "rank" if launcher is None else "node"
    if run.start.group:
        size, rank = run.start.group_size, run.start.group_rank
        known = NAME.fullmatch(run.start.group) and size != 1
        return Membership(run.start.group, f"group={run.start.group}\n", size, rank, word) if known else None
    return _rendezvous(launcher or {})


def _launcher_options(argv: Sequence[str]) -> Mapping[str, str] | None:
    """Return the options of a torchrun that tell of its siblings on other nodes; None for another command."""
    words = list(argv[:100])
    names = [word.rpartition("/")[2] for word in words]
    at = next((at for at, name in enumerate(names) if name in ("torchrun", "torch.distributed.run")), None)
    if at is None:
        return None
    found = {}
    for word, following in itertools.zip_longest(words[at + 1 :], words[at + 2 :], fillvalue=""):
        if match := _RENDEZVOUS.fullmatch(word):
            found[match[1].replace("_", "-")] = following if match[2] is None else match[2]
        if word.endswith(".py"):
            break  # what follows is for the script
    return found


def _rendezvous(options: Mapping[str, str]) -> Membership | None:
    """Return the group of a torchrun that was started on each node by hand."""
    token, nodes = options.get("rdzv-id", ""), options.get("nnodes", "")
    if not token or nodes in ("", "1", "1:1"):
        return None
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", f"rdzv-{token}-{options.get('rdzv-endpoint', '')}")[:100]
    return Membership(name, token, _number(nodes), _number(options.get("node-rank", "")), "node")


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None
