"""Text of a job moves no cursor, opens no page element and adds no header, wherever it turns up."""

from __future__ import annotations

import email
import email.policy
import json
import re
from contextlib import suppress
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rundirs import RunBuilder

from gpualert.cli import main
from gpualert.post import post

ESCAPES = (
    "\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\\x9b31m\x08\x08\x7f\u202egnp.exe\u2028\u200b"
)
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><a href=javascript:alert(1)>&lt;[bold]{{7*7}}{% x %}"
HEADERS = "x\r\nBcc: mallory@example.org\r\nX-Evil: 1\r\n\r\nbody"
HOSTILE = {"escapes": ESCAPES, "markup": MARKUP, "headers": HEADERS}

# Of control characters only line ends may reach a terminal from us, where it is none.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def hostile_run(make_run: RunBuilder, tmp_path: Path, text: str) -> Path:
    """Make a failed run whose every text is hostile, with an artifact of a hostile name."""
    work = tmp_path / f"work-{text}".replace("/", "_")[:60]
    work.mkdir()
    (work / f"result {text}.txt".replace("/", "_")).write_text("fine")
    log = f'Traceback (most recent call last):\n  File "{text}.py", line 3, in {text}\n    {text}\nValueError: {text}\n'
    run = make_run(
        argv=["python", f"--{text}", text],
        cwd=str(work),
        log=log.encode("utf-8", "surrogateescape"),
        options=[("attach", "*.txt")],
        start={"started_at": 0},
        exit={"ended_at": 4e9},
    )
    (run / "name").write_bytes(text.encode() + b"\0")
    return run


def of_engine(run: Path, text: str) -> None:
    """Make a run the job of a workflow engine, whose every word is hostile."""
    fields = {"name": "snakemake", "workflow": text, "key": "k", "rule": text, "wildcards": text, "log": text}
    (run / "engine").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in fields.items()))


def called(*words: str) -> None:
    with suppress(SystemExit):
        main(words)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_command_prints_what_moves_the_cursor(
    text: str,
    make_run: RunBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = hostile_run(make_run, tmp_path, text)
    of_engine(run, text)
    monkeypatch.setenv("GPUALERT_MAIL", "none")
    called("show", run.name)  # before it was told, and after
    called("tick")
    (tmp_path / "hostile.log").write_bytes((run / "output.log").read_bytes() + f"HF_TOKEN=abcd1234 {text}\n".encode())
    odd = tmp_path / f"{text}.log".replace("/", "_")
    odd.write_bytes(b"ValueError: bad\n")
    for words in (
        ["show", run.name],
        ["show", text[:50].replace("\0", "")],
        ["runs"],
        ["log", run.name],
        ["log", "--path", run.name],
        ["classify", str(run / "output.log")],
        ["classify", str(odd)],
        ["rules", "try", str(run / "output.log")],
        ["redact", str(tmp_path / "hostile.log")],
        ["redact", "--diff", str(tmp_path / "hostile.log")],
        ["redact", str(odd)],
        ["workflow", text[:50].replace("\0", "")],
        ["outbox", "list"],
        ["chain", "list"],
        ["ledger"],
        ["stats"],
        ["rules", "explain", text],
        ["chain", "show", text],
        [text],
    ):
        called(*words)
    shown = "".join(capfd.readouterr())
    assert "ValueError" in shown
    assert _CONTROL.findall(shown) == []
    for notes in ("post.log", "notice"):
        if (run / notes).exists():
            assert not _CONTROL.search((run / notes).read_text("utf-8"))


class _Page(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name.startswith("on") or "javascript:" in (value or "") or (name == "src" and value == "x"):
                self.active.append(f"{tag} {name}={value}")


def told(state: Path) -> EmailMessage:
    (file,) = (state / "mail" / "new").iterdir()
    message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_message_gets_no_header_and_no_element_from_a_job(
    text: str, make_run: RunBuilder, tmp_path: Path, state: Path
) -> None:
    run = hostile_run(make_run, tmp_path, text)
    post(run)
    message = told(state)
    assert message["Bcc"] is None
    assert message["X-Evil"] is None
    assert len(message.get_all("To", [])) <= 1
    for part in message.walk():
        for name, value in part.items():
            assert not _CONTROL.search(str(value)), (name, value)
            assert "mallory" not in str(value) or name in ("Subject", "Content-Disposition", "Content-Type")
    html = message.get_body(("html",))
    plain = message.get_body(("plain",))
    assert html is not None
    assert plain is not None
    page = _Page()
    page.feed(html.get_content())
    assert page.active == []
    assert not page.tags & {"script", "iframe", "object", "form", "link", "base", "meta http-equiv"}
    assert not _CONTROL.search(plain.get_content().replace("\r\n", "\n"))
    assert "49" not in str(message["Subject"])


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_the_files_of_a_report_are_ascii_json_that_every_reader_takes(
    text: str, make_run: RunBuilder, tmp_path: Path
) -> None:
    run = hostile_run(make_run, tmp_path, text)
    post(run)
    for name in ("verdict.json", "evidence.json", "artifacts.json"):
        data = (run / name).read_bytes()
        assert data.isascii()
        json.loads(data)
