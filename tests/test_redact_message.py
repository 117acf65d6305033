"""No secret leaves in a message: not in its command, excerpt, pages or attachments."""

from __future__ import annotations

import email
import gzip
import html
from email.message import Message
from pathlib import Path

import pytest
from rundirs import RunBuilder
from secret_forms.forms import Sample
from secret_forms.known import samples

from gpualert.post import post

SAMPLES = [sample for sample in samples() if "no end" not in sample.form]


def parts(mail: Message) -> dict[str, str]:
    """Return every part of a message, decoded, unpacked and unescaped, by name or type."""
    found = {"headers": str(mail.items())}
    for part in mail.walk():
        data = part.get_payload(decode=True)
        if isinstance(data, bytes):
            data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
            found[part.get_filename() or part.get_content_type()] = html.unescape(data.decode("utf-8", "replace"))
    return found


def leaking(name: str, text: str) -> list[str]:
    """Return the forms whose secret, or most of a long one, stands in `text`."""
    shown = text.replace("\n", "") if name.startswith("text/") else text
    return [
        sample.form
        for sample in SAMPLES
        if any(part in shown or (len(part) > 24 and part[-16:] in shown) for part in sample.leaks)
    ]


def word_of(sample: Sample) -> list[str]:
    return sample.text.split(" ") if "\n" not in sample.text else []


def test_seeded_secrets_in_log_command_and_json_do_not_leave(
    make_run: RunBuilder, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_LOG_LINES", "1000")
    options = [
        sample for sample in SAMPLES if "option" in sample.form or "hydra" in sample.form or "env" in sample.form
    ]
    argv = ["python", "train.py", *(word for sample in options for word in word_of(sample))]
    log = "".join(sample.text + "\n" for sample in SAMPLES) + "ValueError: bad value\n"
    path = make_run(argv=argv, cwd=str(tmp_path), log=log.encode("utf-8"))
    post(path)
    (file,) = (state / "mail" / "new").iterdir()
    found = parts(email.message_from_bytes(file.read_bytes()))
    assert {"headers", "text/plain", "text/html", "output.log"} <= set(found)
    assert found["output.log"].endswith("ValueError: bad value\n")
    for name, text in found.items():
        leaks = leaking(name, text)
        assert len(leaks) <= len(SAMPLES) // 100, (name, leaks)
    assert (path / "output.log").read_text("utf-8") == log
