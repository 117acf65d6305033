"""A message as its reader sees it: through a real mail server, in a browser, on a phone and in the dark."""

from __future__ import annotations

import email
import email.policy
import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .report_browser import CHROMIUM

pytestmark = pytest.mark.engines
GPUALERT = Path(__file__).parents[2] / "bash" / "gpualert"
MAILDEV = "maildev@2.2.1"  # 3.0 shows no page on Node 20
DEADLINE_S = 60.0
PHONE, DESK = 360, 1000
LONG_NAME = "sweep-" + "x" * 150
JOB = f"""
import sys
for step in range(60):
    print(f"step {{step}} loss {{9.0 / (step + 1):.4f}} " + "word " * 30)
print("<script>document.body.remove()</script><img src=http://127.0.0.1:9/x.png>", file=sys.stderr)
raise RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; {"y" * 300})")
"""
# What a page says of itself: its width, how many things it would load, and the colours of its words.
ASK = """<script>
const seen = [...document.querySelectorAll("td, div, span, b")].filter((one) => one.textContent.trim());
const colours = [...new Set(seen.map((one) => getComputedStyle(one).color))];
document.title = JSON.stringify({
    width: document.documentElement.scrollWidth, window: innerWidth, colours: colours,
    ground: getComputedStyle(document.documentElement).backgroundColor,
    loaded: document.querySelectorAll("img, script[src], link, iframe, object, video").length,
    text: document.body.innerText.slice(0, 4000)});
</script>"""


@dataclass(frozen=True)
class Server:
    """A mail server that keeps what it gets, and shows it at `web`."""

    smtp_port: int
    web: str

    def get(self, path: str) -> str:
        """Return what it answers."""
        with urllib.request.urlopen(f"{self.web}{path}", timeout=10) as answer:
            return str(answer.read().decode())


def free_port() -> int:
    """Return a port that nobody uses just now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Have a mail server with a web view."""
    folder = tmp_path_factory.mktemp("maildev")
    npm = shutil.which("npm")
    assert npm, "npm is not installed"
    install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), MAILDEV]
    subprocess.run(install, check=True, timeout=300, capture_output=True)
    found = Server(free_port(), f"http://127.0.0.1:{(web := free_port())}")
    words = [folder / "node_modules" / ".bin" / "maildev", "--ip", "127.0.0.1", "--smtp", found.smtp_port]
    words += ["--web-ip", "127.0.0.1", "--web", web]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
    try:
        end = time.monotonic() + DEADLINE_S
        while True:
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            try:
                found.get("/email")
                break
            except OSError:
                time.sleep(0.1)
        yield found
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def page(server: Server, tmp_path: Path) -> Path:
    """Return a failed job's message as the server shows it, sanitised; beside it lies `sent.html`, as it was sent."""
    config = tmp_path / "config" / "gpualert"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text(
        f"mail: smtp\nto: {tmp_path.name}@example.org\nfrom: gpualert@example.org\n"
        f"smtp: {{host: 127.0.0.1, port: {server.smtp_port}, security: none}}\n"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environ |= {"GPUALERT_HOME": str(tmp_path / "state"), "GPUALERT_PYTHON": sys.executable, "GPUALERT_POST": "wait"}
    words = ["sh", str(GPUALERT), "run", "--name", LONG_NAME, "--", sys.executable, "-c", JOB]
    assert subprocess.run(words, env=environ, capture_output=True, timeout=DEADLINE_S, check=False).returncode == 1
    (mail,) = [mail for mail in json.loads(server.get("/email")) if tmp_path.name in json.dumps(mail["to"])]
    assert mail["subject"].startswith("FAILED cuda_oom: sweep-")
    page = tmp_path / "mail.html"
    page.write_text(server.get(f"/email/{mail['id']}/html"))
    raw = email.message_from_string(server.get(f"/email/{mail['id']}/download"), policy=email.policy.default)
    body = raw.get_body(("html",))
    assert body is not None
    page.with_name("sent.html").write_text(body.get_content())
    return page


def browse(page: Path, width: int, *options: str) -> str:
    """Return the page as a headless browser has it."""
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    words += ["--hide-scrollbars", f"--window-size={width},2400", f"--user-data-dir={page.parent / 'chromium'}"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(page.parent)}
    done = subprocess.run([*words, *options, page.as_uri()], capture_output=True, timeout=100, env=environ, check=True)
    return done.stdout.decode(errors="replace")


def look(page: Path, width: int, *options: str) -> dict[str, object]:
    """Return what the page says of itself at a width.  It stands in a frame: a headless window has a least width."""
    inner = page.with_name("asked.html")
    inner.write_text(page.read_text().replace("</body>", f"{ASK}</body>"))
    outer = page.with_name("frame.html")
    outer.write_text(
        f'<meta name="color-scheme" content="light dark"><iframe id=f src="{inner.name}" style="width:{width}px;'
        'height:2000px;border:0" onload="document.title = f.contentDocument.title"></iframe>'
    )
    shown = browse(outer, 1200, "--allow-file-access-from-files", "--dump-dom", *options)
    found = re.search(r"<title>(\{.*?\})</title>", shown, re.DOTALL)
    assert found, shown[:2000]
    return dict(json.loads(html.unescape(found[1])))


def without_style_sheets(page: Path) -> Path:
    """Return the page as a mail program shows it that drops the head, classes and style sheets."""
    text = re.sub(r"<head>.*?</head>|<style.*?</style>|\bclass=\"[^\"]*\"", "", page.read_text(), flags=re.DOTALL)
    stripped = page.with_name("stripped.html")
    stripped.write_text(text)
    return stripped


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_message_fits_the_screen_and_loads_nothing(page: Path, width: int) -> None:
    for shown in (page, page.with_name("sent.html"), without_style_sheets(page)):
        seen = look(shown, width)
        assert seen["window"] == width
        assert int(str(seen["width"])) <= width
        assert seen["loaded"] == 0
        assert "CUDA out of memory. Tried to allocate 2.50 GiB" in str(seen["text"])


def luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(...)`.  Source: WCAG 2.1, relative luminance."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21.  Source: WCAG 2.1, contrast ratio."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# What Chromium paints where a page leaves the choice to it, and the page's own words in that scheme.
@pytest.mark.parametrize(
    ("scheme", "ground", "words"),
    [("1", "rgb(255, 255, 255)", "rgb(0, 0, 0)"), ("0", "rgb(18, 18, 18)", "rgb(255, 255, 255)")],
    ids=["light", "dark"],
)
def test_every_word_can_be_read_by_day_and_by_night(page: Path, scheme: str, ground: str, words: str) -> None:
    seen = look(page.with_name("sent.html"), PHONE, f"--blink-settings=preferredColorScheme={scheme}")
    colours = [str(colour) for colour in seen["colours"]]  # type: ignore[attr-defined]
    assert words in colours
    badge = "rgb(255, 255, 255)"  # stands on a ground of its own
    assert min(contrast(colour, ground) for colour in colours if colour != badge) >= 4.0, colours
