"""The command of one attempt: placeholders filled, and for Slurm the nodes to avoid and the memory to ask for."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpualert.errors import UsageError

# Not ${attempt}: that is the shell's.
_PLACEHOLDER = re.compile(rb"(?<!\$)\{(attempt|exclude|resume)\}")
_SLURM_SIZE = re.compile(r"([1-9]\d*)([KMGT]?)B?", re.IGNORECASE)
_IN_KIB = {"K": 1, "": 1 << 10, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}  # megabytes where nothing is said
_MEMORY = ("--mem", "--mem-per-cpu", "--mem-per-gpu")
_EXCLUDE = ("--exclude", "-x")
_SCRIPT_LIMIT_BYTES = 1 << 20
# Options of sbatch that take no value, or one behind '=' only.  Source: sbatch(1), Slurm 22.05 to 24.05.
_FLAGS = frozenset(
    [
        *("--contiguous", "--exclusive", "--get-user-env", "--hold", "--ignore-pbs", "--no-requeue", "--overcommit"),
        *("--oversubscribe", "--parsable", "--quiet", "--reboot", "--requeue", "--spread-job", "--test-only"),
        *("--use-min-nodes", "--verbose", "--wait", "-H", "-O", "-Q", "-W", "-s", "-v"),
    ]
)


def placeholders(command: Sequence[bytes]) -> set[str]:
    """Return the placeholders that stand in a command."""
    return {match.group(1).decode() for word in command for match in _PLACEHOLDER.finditer(word)}


def fill(command: Sequence[bytes], values: Mapping[str, str]) -> list[bytes]:
    """Return the command with its placeholders filled; a word is left out while one in it has nothing to hold."""
    filled = []
    for word in command:
        names = {match.group(1).decode() for match in _PLACEHOLDER.finditer(word)}
        if all(values[name] for name in names):
            filled.append(_PLACEHOLDER.sub(lambda match: os.fsencode(values[match.group(1).decode()]), word))
    return filled


def scaled(value: str, factor: float) -> str:
    """
    Return a number times a factor, as it was written: whole numbers stay whole, and above 0.

    Raises:
        ValueError: It is no number.
    """
    if re.fullmatch(r"[0-9]{1,15}", value):
        return str(max(1, math.floor(int(value) * factor)))
    return f"{float(value) * factor:g}"


@dataclass(frozen=True)
class _Option:
    """One option of sbatch, and the words that it is written in."""

    name: str
    value: str
    words: tuple[bytes, ...]


def sbatch_words(command: Sequence[bytes], exclude: Sequence[str], memory_factor: float, folder: Path) -> list[bytes]:
    """
    Return an sbatch command that prints the job's number, avoids nodes and asks for more memory.

    Args:
        folder: Where the command runs: the script may be named from there.

    Raises:
        UsageError: More memory is to be asked for, and neither the command nor its script says how much there is.
    """
    program, *words = command
    options, script = _parse(words)
    added = [b"--parsable"]
    if exclude:
        said = ",".join(each.value for each in options if each.name in _EXCLUDE).split(",")
        added.append(f"--exclude={','.join(dict.fromkeys(filter(None, (*said, *exclude))))}".encode())
        options = [each for each in options if each.name not in _EXCLUDE]
    if memory_factor != 1.0:
        name, value = memory_asked(command, folder)
        added.append(f"{name}={_times(value, memory_factor)}".encode())
        options = [each for each in options if each.name not in _MEMORY]
    return [program, *added, *(word for each in options for word in each.words), *script]


def memory_asked(command: Sequence[bytes], folder: Path) -> tuple[str, str]:
    """
    Return the option and the value by which an sbatch command, else its script, asks for memory.

    Raises:
        UsageError: Neither does, or the value is no size.
    """
    options, script = _parse(command[1:])
    for each in (*reversed(options), *reversed(_script_options(script, folder))):
        if each.name in _MEMORY and _SLURM_SIZE.fullmatch(each.value):
            return each.name, each.value
    raise UsageError("cannot ask for more memory: neither the sbatch command nor its script holds --mem=SIZE")


def has_option(command: Sequence[bytes], folder: Path, *names: str) -> bool:
    """Say whether an sbatch command, or its script, has one of these options."""
    options, script = _parse(command[1:])
    return any(each.name in names for each in (*options, *_script_options(script, folder)))


def _script_options(script: Sequence[bytes], folder: Path) -> list[_Option]:
    """Return the options in the `#SBATCH` lines of a script; nothing where it cannot be read."""
    if not script:
        return []
    try:
        with (folder / os.fsdecode(script[0])).open("rb") as file:
            lines = file.read(_SCRIPT_LIMIT_BYTES).splitlines()
    except OSError:
        return []
    return [option for line in lines if line.startswith(b"#SBATCH ") for option in _parse(line.split()[1:])[0]]


def _times(size: str, factor: float) -> str:
    match = _SLURM_SIZE.fullmatch(size)
    assert match  # memory_asked has looked
    return f"{math.ceil(int(match.group(1)) * _IN_KIB[match.group(2).upper()] * factor / 1024)}M"


def _parse(words: Sequence[bytes]) -> tuple[list[_Option], list[bytes]]:
    """Return sbatch's own options, and the words from the script on."""
    options: list[_Option] = []
    place = 0
    while place < len(words) and words[place].startswith(b"-") and words[place] != b"-":
        name, equals, value = os.fsdecode(words[place]).partition("=")
        length = 1
        if not name.startswith("--") and len(name) > 2:
            name, value = name[:2], os.fsdecode(words[place])[2:]
        elif not equals and name not in _FLAGS and place + 1 < len(words):
            length, value = 2, os.fsdecode(words[place + 1])
        options.append(_Option(name, value, tuple(words[place : place + length])))
        place += length
    return options, list(words[place:])
