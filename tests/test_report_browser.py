from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from reports import HOSTILE, a_report, a_run, a_verdict, an_artifact, an_evidence

from gpualert import render
from gpualert.cleaning import Window

pytestmark = pytest.mark.engines
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LONG = "/scratch/" + "verylongname" * 40
MEASURE = "<script>document.title = 'width ' + document.documentElement.scrollWidth + ' of ' + innerWidth</script>"


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
@pytest.mark.parametrize("width", [390, 900])
def test_nothing_is_wider_than_the_screen(tmp_path: Path, width: int) -> None:
    run = a_run(name="n" * 200, cwd=LONG, argv=("python", LONG, HOSTILE))
    verdict = a_verdict(
        evidence=(an_evidence(text=LONG, frame=LONG), an_evidence(text=HOSTILE, host=LONG)), not_read=(LONG,)
    )
    windows = [Window(LONG, f"{LONG}\n{HOSTILE}".encode(), 12_345_678, (12_345_678, 12_345_680), root_line=12_345_678)]
    artifacts = [an_artifact(name=LONG), an_artifact(name=LONG, attached=False, reason=LONG)]
    report = a_report(
        run, verdict, windows=windows, artifacts=artifacts, machine=[(LONG, LONG)], inner=[(run, verdict)]
    )
    page = tmp_path / "report.html"
    page.write_text(render.html(report).replace("</body>", f"{MEASURE}</body>"))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--hide-scrollbars", f"--window-size={width},1000", f"--user-data-dir={tmp_path}", "--dump-dom"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=60, env=env).stdout
    found = re.search(r"<title>width (\d+) of (\d+)</title>", shown)
    assert found and int(found[1]) <= int(found[2])
    assert abs(int(found[2]) - width) < 120
