"""
Prints how many secrets are removed, how many ordinary lines are altered, and how fast.

    python tests/bench/redaction.py [FOLDER ...]

The folders hold ordinary logs; by default the corpora beside this checkout and the project's own corpus.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from secret_forms import heldout, known  # noqa: E402
from secret_forms.forms import Sample  # noqa: E402

from gpualert.redact import redact, redact_text  # noqa: E402

_SEEDS = range(20)
_SUFFIXES = {".log", ".txt", ".csv", ".out", ".err"}
_BESIDE = HERE.parents[3] / "shared"


def main(folders: Sequence[str]) -> None:
    """Print the rates."""
    _removed("known forms", known.samples())
    _removed("held-out forms", heldout.heldout())
    _removed(f"held-out forms, {len(_SEEDS)} other seeds", (s for seed in _SEEDS for s in heldout.heldout(1000 * seed)))
    for folder in map(Path, folders or (_BESIDE / "data" / "reference-corpus", _BESIDE / "wild-dev", "corpus")):
        _altered(folder)


def _removed(title: str, samples: Iterable[Sample]) -> None:
    all_samples = list(samples)
    left = [sample.form for sample in all_samples if sample.leaked(redact_text(sample.text)[0])]
    rate = 100 * (1 - len(left) / len(all_samples))
    print(f"{title}: {rate:.2f} % of {len(all_samples):,} removed")
    for form in sorted(set(left)):
        print(f"    left: {form} ({left.count(form)})")


def _altered(folder: Path) -> None:
    """Print how many lines of a folder's logs are altered, and which."""
    lines = altered = size_bytes = 0
    began_s = time.process_time()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        before = path.read_bytes()
        after = redact(before).data
        size_bytes += len(before)
        lines += before.count(b"\n")
        for number, (old, new) in enumerate(zip(before.split(b"\n"), after.split(b"\n"), strict=True), 1):
            if old != new:
                altered += 1
                print(f"    {path.name}:{number}: {new[:200].decode('utf-8', 'backslashreplace')}")
    took_s = time.process_time() - began_s
    if lines:
        rate = 100 * altered / lines
        print(
            f"{folder.name}: {altered} of {lines:,} lines altered ({rate:.4f} %), {size_bytes / 1e6 / took_s:.1f} MB/s"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
