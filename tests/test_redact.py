"""Secrets go, everything else stays, and no text makes it slow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_forms.heldout import heldout
from secret_forms.known import samples

from gpualert.redact import redact, redact_argv, redact_text
from gpualert.redact.places import ANNOUNCED
from gpualert.redact.words import NAME_ANCHORS

SAMPLES = [*samples(), *heldout()]
REFERENCE = Path(__file__).parents[2] / "shared" / "data" / "reference-corpus"
WILD = Path(__file__).parents[2] / "shared" / "wild-dev"


def test_of_more_than_200_forms_at_least_99_in_100_are_removed() -> None:
    missed = [sample.form for sample in SAMPLES if sample.leaked(redact_text(sample.text)[0])]
    assert len({sample.form for sample in SAMPLES}) >= 700
    assert len(missed) <= len(SAMPLES) // 100, missed


@pytest.mark.long
def test_the_same_secrets_go_from_a_long_log() -> None:
    noise = "step 12 loss 0.4213 tokens/s 12034.2 lr 3e-4\n" * 20
    log = "".join(noise + sample.text + "\n" for sample in SAMPLES)
    shown, count = redact_text(log)
    missed = [sample.form for sample in SAMPLES if sample.leaked(shown)]
    assert len(missed) <= len(SAMPLES) // 100, missed
    assert count >= len(SAMPLES) * 0.99
    assert shown.count("step 12 loss 0.4213 tokens/s 12034.2 lr 3e-4") == 20 * len(SAMPLES)


def test_what_is_redacted_stays_as_it_is_when_redacted_again() -> None:
    for sample in SAMPLES:
        once, _ = redact_text(sample.text)
        assert redact_text(once) == (once, 0), sample.form


def test_line_numbers_stay() -> None:
    for sample in SAMPLES:
        assert redact_text(sample.text)[0].count("\n") == sample.text.count("\n"), sample.form


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnopqrst12", "HF_TOKEN=[redacted]"),
        ('{"api_key": "abcd1234", "n": 2}', '{"api_key": "[redacted]", "n": 2}'),
        ("--password hunter2 --lr 1", "--password [redacted] --lr 1"),
        ("postgres://joe:p@ss@db:5432/runs", "postgres://joe:[redacted]@db:5432/runs"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [redacted]"),
        ("machine h login me password pw123", "machine h login me password [redacted]"),
        ("\x1b[33mpassword\x1b[0m: \x1b[1mhunter2\x1b[0m", "\x1b[33mpassword\x1b[0m: \x1b[1m[redacted]\x1b[0m"),
        ("- name: HF_TOKEN\n  value: abc12345", "- name: HF_TOKEN\n  value: [redacted]"),
        ("curl -u joe:hunter2 https://h", "curl -u joe:[redacted] https://h"),
        ("password = hunter2", "password = [redacted]"),
        ("login(token=abc12345)", "login(token=[redacted])"),
        ("token 'Zq7Xw9Lk2Pm4' rejected", "token '[redacted]' rejected"),
    ],
)
def test_the_name_and_what_surrounds_a_secret_stay(text: str, shown: str) -> None:
    assert redact_text(text) == (shown, 1)


ORDINARY = (Path(__file__).parent / "data" / "ordinary-lines.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_not_touched(line: str) -> None:
    assert redact_text(line) == (line, 0)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference corpus is not beside this checkout")
def test_no_line_of_the_reference_corpus_is_touched() -> None:
    touched = [path.name for path in REFERENCE.rglob("*.log") if redact(path.read_bytes()).count]
    assert touched == []


@pytest.mark.skipif(not WILD.is_dir(), reason="the wild logs are not beside this checkout")
def test_hardly_a_line_of_wild_logs_is_touched() -> None:
    logs = [path.read_bytes() for path in WILD.glob("*.log")]
    lines = sum(log.count(b"\n") for log in logs)
    touched = sum(redact(log).count for log in logs)
    print(f"{touched} of {lines:,} lines touched")
    assert touched <= lines / 1000


@given(st.binary(max_size=400))
def test_bytes_without_secrets_come_back_as_they_are(data: bytes) -> None:
    found = redact(data)
    assert found.data.count(b"\n") == data.count(b"\n")
    assert found.count or found.data is data


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    redact_text(text)


HOSTILE = [announced.anchor for announced in ANNOUNCED] + list(NAME_ANCHORS)
HOSTILE += [
    b"eyJ",
    b"eyJaaaaaaaa.",
    b"\\neyJ",
    b"sk-",
    b"ghp_",
    b"%20ghp_",
    b"aQ~8",
    b"12345:A",
    b"A1b2",
    b"a",
    b" ",
    b"\xff",
]
HOSTILE += [
    b"-----BEGIN PRIVATE KEY-----",
    b"-----END PRIVATE KEY-----\n",
    b"A" * 64 + b"\n",
    b"cookie: a=b ",
    b"\x1b[0m",
]
HOSTILE += [
    b"token=",
    b"token: ",
    b"token ",
    b'password="',
    b"password='",
    b'password=\\"',
    b"password=;",
    b"password=[[",
]
HOSTILE += [b"--token ", b"password=is required ", b"curl -u a", b"mysql -p", b"discord M", b"wandb.login(", b"://a:b"]


@pytest.mark.parametrize("seed", dict.fromkeys(HOSTILE), ids=repr)
def test_the_time_grows_with_the_size_and_not_faster(seed: bytes) -> None:
    def spent(size: int) -> float:
        began = time.process_time()
        redact(seed * (size // len(seed)))
        return time.process_time() - began

    small = min(spent(32_768) for _ in range(2))
    large = spent(8 * 32_768)
    assert large < 8 * 4 * small + 0.05  # a quadratic step would take 64 times as long


def test_a_megabyte_of_one_line_full_of_names_is_done() -> None:
    line = b"password=" + b"token=" * 170_000
    assert redact(line).count == 1


@pytest.mark.parametrize(
    ("argv", "shown", "count"),
    [
        (["python", "train.py", "--lr=0.1"], "python train.py --lr=0.1", 0),
        (["t.py", "--password", "hun ter2", "--n", "1"], "t.py --password [redacted] --n 1", 1),
        (["t.py", "--api-key=ab cd"], "t.py --api-key=[redacted]", 1),
        (["t.py", "--token", "x"], "t.py --token [redacted]", 1),
        (["t.py", "--max-tokens", "512"], "t.py --max-tokens 512", 0),
        (["t.py", "--pad-token", "<pad>"], "t.py --pad-token '<pad>'", 0),
        (["env", "HF_TOKEN=abcd1234", "t.py"], "env HF_TOKEN=[redacted] t.py", 1),
        (["t.py", "logger.wandb.api_key=abcd1234"], "t.py logger.wandb.api_key=[redacted]", 1),
        (["curl", "-u", "joe:pw", "https://h"], "curl -u joe:[redacted] https://h", 1),
        (["curl", "-H", "Authorization: Bearer abcdef123456"], "curl -H 'Authorization: Bearer [redacted]'", 1),
        (["sh", "-c", "X_TOKEN=abcd1234 run 'it'"], "sh -c 'X_TOKEN=[redacted] run '\"'\"'it'\"'\"''", 1),
        (["wandb", "login", "0123456789abcdef0123456789abcdef01234567"], "wandb login [redacted]", 1),
        (["t.py", "{password:", "'ab", "cd'}"], "t.py '{password:' ''\"'\"'[redacted]' '[redacted]'\"'\"'}'", 1),
        (["t.py", "password:", "hunter2", "x"], "t.py password: [redacted] x", 1),
        (["echo", "a\nb"], "echo 'a\nb'", 0),
        (["t.py", "--password"], "t.py --password", 0),
        (["t.py", "--password", ""], "t.py --password ''", 0),
        ([], "", 0),
    ],
)
def test_a_command_is_shown_as_typed_without_its_secrets(argv: list[str], shown: str, count: int) -> None:
    assert redact_argv(argv) == (shown, count)


def test_a_word_of_a_command_that_is_no_text_is_taken() -> None:
    assert redact_argv(["cat", "caf\udce9", "--token", "\udce9abc"]) == ("cat 'caf\udce9' --token [redacted]", 1)
