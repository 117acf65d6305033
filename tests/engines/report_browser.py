"""Snakemake's report in a headless browser: click through it, and see what is shown or take a picture."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EYE = "the eye"  # what opens a result
_STEP_MS, _SETTLE_MS = 1000, 4000
# The app builds its page by and by: each click comes a second after the one before.
_CLICKS = """<script>
const found = (what) => what === "the eye" ? document.querySelector("a[iconname=eye]")
    : [...document.querySelectorAll("a, span, label")].filter((one) => one.textContent.trim() === what).pop();
STEPS.forEach((what, at) => setTimeout(
    () => found(what).dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true})), (at + 1) * STEP));
</script></body>"""


def look(report: Path, scratch: Path, steps: Sequence[str]) -> str:
    """Return the page as it is after the clicks, the result that is shown included."""
    dom = _browse(_clicked(report, scratch, steps), scratch, len(steps), "--dump-dom")
    framed = re.search(r'<iframe src="data:text/html[^,]*base64,([A-Za-z0-9+/=]+)"', dom)
    return dom + (base64.b64decode(framed[1]).decode() if framed else "")


def take_picture(report: Path, scratch: Path, steps: Sequence[str], picture: Path) -> None:
    """Write what is shown after the clicks as a PNG file."""
    options = (f"--screenshot={picture}", "--hide-scrollbars", "--window-size=1160,500")
    _browse(_clicked(report, scratch, steps), scratch, len(steps), *options)


def _clicked(report: Path, scratch: Path, steps: Sequence[str]) -> Path:
    head, _, tail = report.read_text().rpartition("</body>")
    clicks = _CLICKS.replace("STEPS", json.dumps(list(steps))).replace("STEP)", f"{_STEP_MS})")
    page = scratch / "clicked.html"
    page.write_text(head + clicks + tail)
    return page


def _browse(page: Path, scratch: Path, steps: int, *options: str) -> str:
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    words += [f"--user-data-dir={scratch / 'chromium'}", f"--virtual-time-budget={steps * _STEP_MS + _SETTLE_MS}"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(scratch)}
    done = subprocess.run(
        [*words, *options, page.as_uri()],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=100,
        env=environ,
        check=True,
    )
    return done.stdout
