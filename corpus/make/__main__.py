"""
Make cases of the corpus, from the checkout's root:

    python -m corpus.make                     all of them
    python -m corpus.make segfault            those of one class
    python -m corpus.make --twice NAME        run it twice; say whether gpualert names its class both times
    python -m corpus.make --count             how many cases there are, class by class

It prints what has changed; a case that looks as before is left alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corpus.make.case import LabelError, lacking, look, publish, write_label
from corpus.make.cleaning import empty, keep, replacements, write_texts
from corpus.make.count import table
from corpus.make.recipe import Job, Recipe, Text, World, check
from corpus.make.recipes import all_recipes
from corpus.make.sandbox import CHECKOUT, BoxError, missing, run_in_box
from gpualert.errors import GpualertError

CORPUS = CHECKOUT / "corpus"


def main(words: Sequence[str] | None = None) -> int:
    """Make what is asked for; 1 where something could not be made, 2 where there is no such case."""
    parser = argparse.ArgumentParser(prog="python -m corpus.make", description="Make cases of the corpus.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a class, a case, or class/case; default: all")
    parser.add_argument("--twice", action="store_true", help="make each twice, keep neither, and compare")
    parser.add_argument("--count", action="store_true", help="only count the cases that there are")
    parser.add_argument("--list", action="store_true", help="only print the names")
    chosen = parser.parse_args(words)
    if chosen.count:
        print("\n".join(table(CORPUS)))
        return 0
    recipes = all_recipes()
    for line in (wrong := check(recipes)):
        print(line, file=sys.stderr)
    wanted = [recipe for recipe in recipes if not chosen.names or _is_named(recipe, chosen.names)]
    if not wanted or wrong:
        print(f"no case is called {' '.join(chosen.names)}" if not wrong else "", file=sys.stderr)
        return 2
    if chosen.list:
        print("\n".join(recipe.name for recipe in wanted))
        return 0
    # What ends us must not leave boxes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="corpus-", dir="/var/tmp") as scratch:
        results = [(_twice if chosen.twice else _once)(recipe, Path(scratch)) for recipe in wanted]
    print(f"{results.count(True)} of {len(results)} cases {'reached twice' if chosen.twice else 'made'}")
    return 0 if all(results) else 1


def _is_named(recipe: Recipe, names: Sequence[str]) -> bool:
    return any(name in (recipe.name, *recipe.name.split("/")) for name in names)


def _once(recipe: Recipe, scratch: Path) -> bool:
    """Make one case, and say what has changed; return whether it was made."""
    made = _make(recipe, scratch)
    if made is None:
        return False
    for change in publish(made, CORPUS / recipe.name, recipe):
        print(f"{recipe.name}: {change}", flush=True)
    return True


def _twice(recipe: Recipe, scratch: Path) -> bool:
    """Make a case twice; return whether its class is named both times."""
    looks = [look(made) for _ in range(2) if (made := _make(recipe, scratch))]
    said = [one.said for one in looks]
    reached = len(said) == 2 and all(name in (recipe.failure_class, *recipe.class_alt) for name in said)
    changes = "; ".join(looks[1].differs(looks[0])) if len(looks) == 2 else ""
    print(f"{recipe.name}: {'reached twice' if reached else 'said ' + ', '.join(said)} {changes}".rstrip(), flush=True)
    return reached


def _make(recipe: Recipe, scratch: Path) -> Path | None:
    """Return a new case, labelled; None where it could not be made, which is said."""
    case, box = scratch / "made" / recipe.name, scratch / "box"
    empty(case)
    empty(box)
    try:
        _fill(recipe, case, box)
        write_label(case, recipe)
    except (BoxError, LabelError, GpualertError, OSError) as error:
        print(f"{recipe.name}: not made: {error}", file=sys.stderr, flush=True)
        return None
    return case


def _fill(recipe: Recipe, case: Path, box: Path) -> None:
    """Write the run directories of a case."""
    if isinstance(recipe.job, (Text, tuple)):
        return write_texts(case, recipe, [recipe.job] if isinstance(recipe.job, Text) else recipe.job)
    if lacks := lacking(recipe):
        raise BoxError(f"not installed: {', '.join(lacks)}")
    if isinstance(recipe.job, Job):
        if trouble := missing():
            raise BoxError(trouble)
        return keep(run_in_box(recipe.job, box, box.parent / "cache"), case, recipe, replacements())
    world = World(box / "project", box / "state", CHECKOUT / "bash" / "gpualert", Path(sys.executable))
    world.project.mkdir()
    told = recipe.job(world)
    return keep(world.state / "runs", case, recipe, {**replacements(world), **told})


if __name__ == "__main__":
    sys.exit(main())
