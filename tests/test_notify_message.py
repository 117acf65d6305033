from __future__ import annotations

import email
import os
import subprocess
import sys
from dataclasses import replace
from email.message import EmailMessage
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import HOSTILE, NOW, RUN_ID, a_report, a_run, a_verdict, an_artifact, an_evidence

from gpualert.cleaning import Window
from gpualert.config import Settings
from gpualert.model import Options, RunStatus
from gpualert.notify.message import Envelope, compose, envelope, message_id
from gpualert.notify.mime import without_attachments

IDENTITY = message_id(RUN_ID, RunStatus.FAILED)
ANN = Envelope("gpualert <ann@example.org>", "ann@example.org", ("ann@example.org",))


def composed(report=None, artifacts=(), sent_by=ANN) -> bytes:
    return compose(report or a_report(artifacts=artifacts), artifacts, sent_by, IDENTITY, NOW)


def parsed(message: bytes) -> EmailMessage:
    found = email.message_from_bytes(message, policy=default)
    assert isinstance(found, EmailMessage)
    assert [part.defects for part in found.walk() if part.defects] == []
    return found


def test_a_message_has_text_and_html_and_its_attachments():
    mail = parsed(composed(artifacts=[an_artifact(media_type="text/csv"), an_artifact(name="big", attached=False)]))
    assert mail["Subject"] == "FAILED cuda_oom: train.py on node03 after 3h 12m"
    assert mail.get_body(("plain",)).get_content().startswith("FAILED cuda_oom")
    assert "<!DOCTYPE html>" in mail.get_body(("html",)).get_content()
    (file,) = mail.iter_attachments()
    assert (file.get_filename(), file.get_content_type()) == ("metrics.csv", "text/csv")
    assert file.get_content() == "step,loss\n1,2\n"


def test_attached_bytes_arrive_unchanged():
    data = os.urandom(200_000)
    mail = parsed(
        composed(artifacts=[an_artifact(name=name, content=data[: 100_000 + i]) for i, name in enumerate("abc")])
    )
    assert [file.get_content() for file in mail.iter_attachments()] == [data[: 100_000 + i] for i in range(3)]


def test_headers_say_who_wrote_it_and_that_nobody_should_answer():
    mail = parsed(composed())
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == IDENTITY == f"<{RUN_ID}.failed@gpualert.invalid>"
    assert mail["Date"].datetime.timestamp() == NOW
    assert (mail["X-Gpualert-Run"], mail["X-Gpualert-Status"], mail["X-Gpualert-Class"]) == (
        RUN_ID,
        "failed",
        "cuda_oom",
    )
    assert mail["From"].addresses[0].addr_spec == "ann@example.org"


def test_the_same_report_gives_the_same_bytes():
    artifacts = [an_artifact(), an_artifact(name="more.csv")]
    assert composed(artifacts=artifacts) == composed(artifacts=artifacts)


@pytest.mark.parametrize("field", ["name", "argv", "evidence", "artifact", "address", "sender", "class", "run_id"])
def test_no_text_of_the_job_can_add_a_header_or_a_long_line(field):
    long = HOSTILE + "é" * 3000 + "x" * 1_000_000
    run = a_run(
        name=long if field == "name" else "",
        argv=("python", long) if field == "argv" else ("python",),
        run_id=HOSTILE if field == "run_id" else RUN_ID,
    )
    verdict = a_verdict(
        failure_class=HOSTILE if field == "class" else "cuda_oom",
        evidence=(an_evidence(text=long[:2000] if field == "evidence" else "x"),),
    )
    files = [an_artifact(name=long if field == "artifact" else "a", media_type=HOSTILE)]
    window = Window("End", long.encode(), 1, (1, 4))
    report = a_report(run, verdict, windows=[window], artifacts=files)
    sender = HOSTILE if field == "sender" else "ann@example.org"
    to = HOSTILE if field == "address" else "ann@example.org"
    message = composed(report, files, Envelope(sender, "ann@example.org", (to,)))
    assert message.isascii()
    assert b"\r" not in message.replace(b"\r\n", b"") and b"\n" not in message.replace(b"\r\n", b"")
    assert max(map(len, message.split(b"\r\n"))) <= 998
    for part in email.message_from_bytes(message, policy=default).walk():
        assert part["Bcc"] is None and part["Cc"] is None
        assert not (part.get_filename() or "").startswith(("/", "."))


@pytest.mark.parametrize(
    "subject", ["é" * 140, "模型" * 60, "=?utf-8?b?" + "A" * 100, "x" * 150, "a" * 70 + " =?utf-8?q?=0aBcc:_a?= b"]
)
def test_a_strange_name_gives_one_subject_that_reads_back(subject):
    mail = parsed(composed(a_report(a_run(name=subject))))
    assert mail["Bcc"] is None
    assert str(mail["Subject"]).startswith(f"FAILED cuda_oom: {subject[:9].replace('=?', '= ?')[:8]}")


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec=None), max_size=80), st.text(st.characters(codec=None), min_size=1, max_size=80))
def test_whatever_the_names_headers_stay_the_same_and_in_their_limits(name, file_name):
    artifacts = [an_artifact(name=file_name)]
    message = composed(a_report(a_run(name=name), artifacts=artifacts), artifacts)
    assert message.isascii() and max(map(len, message.split(b"\r\n"))) <= 998
    assert parsed(message).keys() == parsed(composed(artifacts=[an_artifact()])).keys()
    (file,) = parsed(message).iter_attachments()
    assert sorted(file.keys()) == ["Content-Disposition", "Content-Transfer-Encoding", "Content-Type"]


@pytest.mark.parametrize(
    "name", ["loss é.csv", 'a"b;c.csv', "../../etc/passwd", "x" * 300 + ".tar.gz", "a\nb.csv", "=?utf-8?q?=0ax?=.csv"]
)
def test_a_strange_file_name_gives_one_harmless_file_name(name):
    (file,) = parsed(composed(artifacts=[an_artifact(name=name)])).iter_attachments()
    found = file.get_filename()
    assert found and len(found) <= 130 and not set('/\\\n\r"') & set(found.replace("\\n", ""))
    assert found.endswith(name[-4:])


def test_no_log_attaches_nothing_even_when_it_is_given():
    run = a_run(options=Options(log=False))
    files = [an_artifact()]
    assert list(parsed(composed(a_report(run, artifacts=files), files)).iter_attachments()) == []


def test_without_its_attachments_a_message_says_what_was_left_out():
    artifacts = [an_artifact(name="é.csv"), an_artifact(name="b.csv", content=b"x" * 100_000)]
    whole = composed(artifacts=artifacts)
    mail = parsed(without_attachments(whole))
    assert mail["Message-ID"] == IDENTITY
    assert mail.get_body(("plain",)).get_content() == parsed(whole).get_body(("plain",)).get_content()
    *_, note = mail.iter_parts()
    assert "é.csv, b.csv" in note.get_content() and "size" in note.get_content()
    assert len(without_attachments(whole)) < len(whole) - 100_000


def test_a_message_without_attachments_cannot_be_made_smaller():
    assert without_attachments(composed()) is None
    assert without_attachments(without_attachments(composed(artifacts=[an_artifact()]))) is None
    assert without_attachments(b"Subject: bare\r\n\r\nhello\r\n") is None


@pytest.mark.parametrize(
    ("chosen", "asked", "wanted"),
    [
        (Settings(sender="Ann <ann@x.org>"), (), Envelope("Ann <ann@x.org>", "ann@x.org", ("ann@x.org",))),
        (
            Settings(mail="smtp", to=("bob@x.org",)), ("Cy <cy@x.org>", "d@x.org"),
            Envelope("cy@x.org", "cy@x.org", ("cy@x.org", "d@x.org")),
        ),
        (
            Settings(sender="a@x.org", envelope_from="bounces@x.org", to=("b@x.org",)), (),
            Envelope("a@x.org", "bounces@x.org", ("b@x.org",)),
        ),
    ],
)  # fmt: skip
def test_the_envelope_follows_the_settings_and_the_run(chosen, asked, wanted):
    assert envelope(chosen, asked) == wanted


def test_what_is_no_address_is_left_out_of_the_envelope_and_named():
    chosen = Settings(sender="Ann <ann@x.org>", to=("bob@x.org", "<"))
    assert envelope(chosen, ("bob@",)).to == ("bob@x.org",), "the usual recipients where no other is left"
    assert envelope(chosen, ("bob@",)).refused == ("no mail address: 'bob@'", "no mail address: '<'")
    assert envelope(chosen, ("cy@x.org, d@x.org",)).to == ("cy@x.org", "d@x.org")
    assert envelope(Settings(sender="<", to=("bob@",))) == replace(
        envelope(Settings()), refused=("no mail address: 'bob@'", "no mail address: '<'")
    )


def test_without_settings_the_user_writes_to_himself():
    found = envelope(Settings())
    assert found.to == (found.mail_from,) and found.mail_from.endswith(f"@{os.uname().nodename}")


def test_composing_takes_little_more_memory_than_the_message():
    code = """
import os, resource
from reports import a_report, an_artifact, NOW
from gpualert.notify.message import Envelope, compose
files = [an_artifact(content=os.urandom(7_300_000))]
compose(a_report(artifacts=[an_artifact()]), [an_artifact()], Envelope("a@b", "a@b", ("a@b",)), "<a@b>", NOW)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
message = compose(a_report(artifacts=files), files, Envelope("a@b", "a@b", ("a@b",)), "<a@b>", NOW)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(message))
"""
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}  # noqa: PTH120
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert float(grown) < 2.6
