from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from reports import HOSTILE, NOW, OOM, RUN_ID, a_report, a_run, a_success, a_verdict, an_artifact, an_evidence

from gpualert import render
from gpualert.cleaning import Window
from gpualert.model import Action, ChainEnd, Exit, Options, RetryDecision, RunnerUp, RunStatus, frozen
from gpualert.report import Point
from gpualert.wording import command_name

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.mark.parametrize(
    ("run", "verdict", "subject"),
    [
        pytest.param(a_run(), a_verdict(), "FAILED cuda_oom: train.py on node03 after 3h 12m", id="failed"),
        pytest.param(
            a_run(exit=Exit(0, None, False, NOW + 45)),
            a_verdict(failure_class="oom_killer", exited_zero=True),
            "FAILED oom_killer (exit 0): train.py on node03 after 45s",
            id="failed although the status is 0",
        ),
        pytest.param(
            a_run(exit=None), a_verdict(status=RunStatus.LOST, failure_class="node_failure", evidence=()),
            "LOST node_failure: train.py on node03", id="lost",
        ),
        pytest.param(a_run(), a_success(), "OK: train.py on node03 after 3h 12m", id="succeeded"),
        pytest.param(
            a_run(exit=None), a_verdict(status=RunStatus.UNKNOWN), "UNKNOWN: train.py on node03", id="unknown"
        ),
        pytest.param(a_run(name="big run"), a_verdict(), "FAILED cuda_oom: big run on node03 after 3h 12m", id="named"),
        pytest.param(
            a_run(engine=frozen({"rule": "train", "wildcards": "s=A"})), a_verdict(),
            "FAILED cuda_oom: train s=A on node03 after 3h 12m", id="a workflow's rule",
        ),
        pytest.param(
            a_run(exit=Exit(1, None, False, NOW - 5)), a_verdict(), "FAILED cuda_oom: train.py on node03",
            id="the clock was set back",
        ),
        pytest.param(
            a_run(start=None, exit=None, argv=()), a_verdict(status=RunStatus.LOST, failure_class="unknown"),
            f"LOST: {RUN_ID}", id="nothing is known",
        ),
    ],
)  # fmt: skip
def test_the_subject_says_outcome_class_name_host_and_duration(run, verdict, subject):
    assert a_report(run, verdict).subject == subject


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -u train.py --lr 1", "train.py"),
        ("/usr/bin/python3 /home/ann/train.py", "train.py"),
        ("torchrun --nproc-per-node 8 -m pkg.train x", "pkg.train"),
        ("srun --mpi=pmix python a/b/run_exp.py", "run_exp.py"),
        ("./train.sh", "train.sh"),
        ("nvidia-smi -l", "nvidia-smi"),
        ("bash", "bash"),
        ("", ""),
    ],
)
def test_a_command_is_called_by_what_it_runs(command, name):
    assert command_name(command.split()) == name


def test_a_shell_text_is_called_by_its_script_and_never_by_an_assignment():
    assert command_name(["bash", "-c", "export TOKEN=abc; cd x && ./run.sh 1"]) == "run.sh"
    assert command_name(["bash", "-c", "TOKEN=abc exec nvcc"]) == "exec"


def test_the_first_lines_answer_what_why_where_next_and_which_log():
    run = a_run()
    log = an_artifact(name="output.log", path=run.path / "output.log", size_bytes=1_234_567)
    report = a_report(run, artifacts=[log])
    assert dict(report.answers) == {
        "What": "The GPU ran out of memory (cuda_oom, high confidence). Its exit status is 1.",
        "Why": OOM,
        "Line": "output.log, line 3, rank 3, on node03; train.py:61 in main",
        "Next": "Lower the batch size, or ask for a larger card. Trying again helps only with more of what ran out.",
        "Log": f"{run.path}/output.log (1.2 MB, attached)",
    }
    first = render.text(report).splitlines()[:16]
    assert first[0] == "FAILED cuda_oom: train.py on node03 after 3h 12m"
    assert [line.split()[0] for line in first[2:] if re.match(r"[A-Z]\w+  ", line)] == list(dict(report.answers))


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Exit(137, 9, False, NOW + 9), "It was killed by SIGKILL (exit status 137)."),
        (Exit(200, 99, False, NOW + 9), "It was killed by signal 99 (exit status 200)."),
        (Exit(124, None, True, NOW + 9), "It was stopped at its time limit of 60 s (--timeout)."),
        (None, "No exit record was written."),
    ],
)
def test_how_it_ended_is_said_in_words(ended, said):
    report = a_report(a_run(exit=ended, options=Options(timeout_s=60)))
    assert report.what.endswith(said)


def test_the_retry_decision_replaces_the_general_outlook():
    advice = "Lower the batch size, or ask for a larger card."
    no = a_report(decision=RetryDecision(False, 0, "cuda_oom would end it the same way", ChainEnd.NEEDS_PERSON))
    yes = a_report(verdict=a_verdict(action=Action.RETRY), decision=RetryDecision(True, 660, "attempt 2 of 4"))
    assert no.next_step == f"{advice} It is not tried again: cuda_oom would end it the same way."
    assert yes.next_step == f"{advice} It is tried again in 11m: attempt 2 of 4."


@pytest.mark.parametrize(
    ("end", "attempts", "said"),
    [
        (ChainEnd.SAVED, 3, ", saved at attempt 3"),
        (ChainEnd.SAVED, 1, ""),
        (ChainEnd.GAVE_UP, 6, ", given up after 6 attempts"),
        (ChainEnd.NEEDS_PERSON, 1, ", needs you"),
        (ChainEnd.STOPPED, 2, ""),
    ],
)
def test_the_end_of_a_chain_stands_in_the_subject_and_its_attempts_in_the_report(end, attempts, said):
    lines = tuple(f"attempt {number}: network on n3 after 2m" for number in range(1, attempts + 1))
    plain, report = a_report(), a_report(decision=RetryDecision(False, 0, "so it is", end, history=lines))
    assert report.subject == plain.subject + said
    listed = lines if attempts > 1 else ()
    assert dict(report.contents)["The attempts of this chain"] == tuple(Point("", line) for line in listed)


def test_everything_that_leaves_is_redacted_and_the_count_is_said():
    leaky = f"failed with token={TOKEN} at https://ann:s3cretpassw0rd@host/x"
    verdict = a_verdict(
        evidence=(an_evidence(text=leaky, parameters=frozen({"path": f"/x/{TOKEN}"})), an_evidence(text=leaky)),
        runners_up=(RunnerUp("auth", an_evidence(text=leaky)),),
        not_read=(leaky,),
        notes=(leaky,),
    )
    run = a_run(
        argv=("python", "train.py", f"--token={TOKEN}", "--password", "s3cretpassw0rd"),
        name=f"run {TOKEN}",
        cwd=f"/home/{TOKEN}",
    )
    window = Window("Around", f"x\n{leaky}\ny".encode(), 1, (1, 3))
    file = an_artifact(name=f"{TOKEN}.csv", reason=leaky)
    report = a_report(
        run, verdict, windows=[window], artifacts=[file], inner=[(run, verdict)], machine=[("Driver", leaky)],
        redactions=5,
    )  # fmt: skip
    for shown in (render.text(report), render.html(report), report.subject):
        assert TOKEN not in shown and "s3cretpassw0rd" not in shown
    assert report.redactions > 5 + 15
    assert f"Secrets were removed in {report.redactions} places" in render.text(report)
    assert f"Secrets were removed in {report.redactions} places" in render.html(report)


def test_a_name_is_redacted_before_it_is_cut():
    report = a_report(a_run(name="x" * 50 + " " + TOKEN))
    assert TOKEN[:8] not in report.subject


def test_a_key_that_begins_above_the_shown_lines_does_not_leak():
    body = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 6
    data = b"start\n-----BEGIN PRIVATE KEY-----\n" + body + b"-----END PRIVATE KEY-----\nend"
    report = a_report(windows=[Window("End", data, 1, (5, 10))])
    assert not any("MII" in line.text for line in report.excerpts[0].lines)
    assert [line.number for line in report.excerpts[0].lines] == [5, 6, 7, 8, 9, 10]
    assert report.excerpts[0].lines[-1].text == "end"


def test_an_evidence_that_was_cut_off_does_not_leak_half_a_secret():
    text = "x " * 990 + TOKEN
    report = a_report(verdict=a_verdict(evidence=(an_evidence(text=text[:2000]),)))
    assert "hf_" not in report.why and report.why.endswith("…")


def test_no_log_sends_verdict_and_path_only():
    run = a_run(options=Options(log=False), argv=("python", "train.py", "--data", "private.csv"))
    log = an_artifact(name="output.log", path=run.path / "output.log", content=b"the log")
    other = RunnerUp("nccl", an_evidence(text="NCCL says this"))
    verdict = a_verdict(runners_up=(other,), notes=("it said: hello",))
    report = a_report(run, verdict, windows=[Window("End", b"the log", 1, (1, 1))], artifacts=[log])
    assert not report.attached and [point.label for point in report.left_out] == ["output.log"]
    for shown in (render.text(report), render.html(report)):
        for kept in (OOM, "NCCL says", "the log\n", "hello", "private.csv", "train.py:61"):
            assert kept not in shown
        assert "cuda_oom" in shown and "output.log" in shown and "--no-log" in shown and str(run.path) in shown


def test_hostile_text_stays_on_its_line_and_cannot_hide():
    run = a_run(name=HOSTILE, cwd=HOSTILE, argv=("python", HOSTILE))
    verdict = a_verdict(evidence=(an_evidence(text=HOSTILE, host=HOSTILE, frame=HOSTILE),), notes=(HOSTILE,))
    window = Window(HOSTILE, HOSTILE.encode() + b"\xff\xfe\x00", 1, (1, 4))
    report = a_report(
        run, verdict, windows=[window], artifacts=[an_artifact(name=HOSTILE)], machine=[(HOSTILE, HOSTILE)]
    )
    shown = render.text(report) + render.html(report)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800-\udfff]", shown)
    assert not re.search(r"^ *Bcc:", render.text(report), re.MULTILINE)
    assert "<script" not in render.html(report) and "&lt;script&gt;" in render.html(report)
    assert "\\u202egnp.exe" in shown and "\\xff\\xfe\\x00" in shown
    assert "\n" not in report.subject and "\r" not in report.subject


def test_undecodable_names_can_be_shown():
    run = a_run(cwd="/home/ann/\udcff", path=Path("/state/runs/\udce9"), argv=("python", "tr\udc80ain.py"))
    shown = render.html(a_report(run)) + render.text(a_report(run, a_verdict(evidence=(an_evidence(text="\ud800"),))))
    assert "/home/ann/\\xff" in shown and "\\ud800" in shown
    assert shown.encode()


def test_a_line_of_a_megabyte_is_cut_and_the_cut_is_said():
    long = b"x" * 1_000_000
    report = a_report(
        verdict=a_verdict(evidence=(an_evidence(text="y" * 1999),)),
        windows=[Window("End", long + b"\n" + b"z" * 5000, 1, (1, 2))],
    )
    first, second = report.excerpts[0].lines
    assert len(first.text) < 600 and "left out" in first.text
    assert len(second.text) <= 400 and "characters left out" in second.text
    assert len(report.why) <= 400 and "characters left out" in report.why
    assert len(render.html(report)) < 50_000


def test_a_report_full_of_long_lines_stays_below_what_gmail_shows():
    lines = b"\n".join([b"[rank0]: <frozen> " + b"y" * 2000] * 69)
    verdict = a_verdict(evidence=(an_evidence(text="<" * 1900),) * 50)
    report = a_report(verdict=verdict, windows=[Window("End", lines, 1, (1, 69))])
    assert len(report.evidence) == 6
    assert len(render.html(report)) < 102_000


def test_painted_lines_show_what_a_terminal_would_show_last():
    data = b"10%\r20%\r100%|####|\r\nnext\r\n 1%\r\r\n"
    report = a_report(windows=[Window("End", data, 1, (1, 3))])
    assert [line.text for line in report.excerpts[0].lines] == ["100%|####|", "next", " 1%"]


def test_of_a_painted_root_line_the_part_that_the_evidence_names_is_shown():
    data = b"10%\rRuntimeError: boom\r20%\rdone"
    report = a_report(windows=[Window("Around", data, 1, (1, 1), root_line=1, root_text="RuntimeError: boom")])
    (line,) = report.excerpts[0].lines
    assert (line.text, line.is_root) == ("RuntimeError: boom", True)
    assert ">     1  RuntimeError: boom" in render.text(report)


def test_evidence_is_listed_with_rank_host_parameters_and_frame():
    kernel = an_evidence(
        source="kernel", file="", line=0, rank=None, text="NVRM: Xid 31", frame="", parameters=frozen({"xid": 31})
    )
    text = render.text(a_report(verdict=a_verdict(evidence=(an_evidence(parameters=frozen({"device": 0})), kernel))))
    assert "- output.log, line 3, rank 3, on node03; train.py:61 in main\n  device=0\n" in text
    assert "- kernel, on node03\n  NVRM: Xid 31\n  xid=31\n" in text
    assert text.count(OOM) == 1, "the first answer says it already"


def test_what_is_not_attached_or_not_read_is_said_with_its_reason():
    big = an_artifact(name="ckpt.pt", size_bytes=2_500_000_000, attached=False, reason="larger than 10 MB")
    report = a_report(verdict=a_verdict(not_read=("kernel log: permission denied",)), artifacts=[big, an_artifact()])
    for shown in (render.text(report), render.html(report)):
        for words in ("ckpt.pt", "2.5 GB, larger than 10 MB", "metrics.csv", "12 B", "kernel log: permission denied"):
            assert words in shown


def test_failed_inner_runs_are_listed_and_their_no_log_is_kept():
    inner = a_run(path=Path("/state/runs/inner"), name="inner")
    silent = replace(inner, options=Options(log=False), name="silent")
    verdict = a_verdict(evidence=(an_evidence(text="inner error"),))
    text = render.text(a_report(a_run(), a_success(), inner=[(inner, verdict), (silent, verdict)]))
    assert "- FAILED cuda_oom: inner on node03 after 3h 12m: /state/runs/inner\n  inner error\n" in text
    assert "silent on node03" in text and text.count("inner error") == 1


def test_times_are_told_in_utc_and_on_the_local_clock():
    facts = dict(a_report().facts)
    assert facts["Started"] == "2026-11-30 00:53:20 UTC (01:53:20 CET)"
    assert facts["Ended"] == "2026-11-30 04:05:20 UTC (05:05:20 CET)"


def test_prose_fits_eighty_columns_and_log_lines_are_not_broken():
    window = Window("End of output.log", b"w " * 90, 7, (7, 7))
    report = a_report(verdict=a_verdict(advice="word " * 60), windows=[window])
    lines = render.text(report).splitlines()
    (log_line,) = [line for line in lines if line.startswith("      7  ")]
    assert log_line == "      7  " + ("w " * 90).rstrip()
    assert all(len(line) <= 78 for line in lines if line != log_line and "/" not in line)


def test_html_loads_nothing_and_needs_no_style_sheet_or_script():
    page = render.html(a_report(windows=[Window("End", b"see https://example.org/x.png", 1, (1, 1))]))
    assert not re.search(r"<(script|style|link|img|iframe|object|form|svg)\b|\bon\w+=|url\(|src=|@import", page)
    assert page.startswith("\n") is False and page.lstrip().startswith("<!DOCTYPE html>")


def test_an_empty_log_is_called_empty():
    assert "(empty)" in render.text(a_report(windows=[Window("End of output.log", b"", 1, (1, 0))]))


def test_no_log_keeps_the_log_lines_of_inner_runs_back_too():
    verdict = a_verdict(evidence=(an_evidence(text="inner error"),))
    report = a_report(a_run(options=Options(log=False)), a_success(), inner=[(a_run(name="inner"), verdict)])
    assert "inner on node03" in render.text(report)
    assert "inner error" not in render.text(report) + render.html(report)
