"""Secrets go, everything else stays, and no text makes it slow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import Sample, samples

from gpualert.redact import forms as secret_forms
from gpualert.redact import redact, redact_argv, redact_text

SAMPLES = list(samples())
REFERENCE = Path(__file__).parents[2] / "shared" / "data" / "reference-corpus"
WILD = Path(__file__).parents[2] / "shared" / "wild-dev"


def leaked(sample: Sample, shown: str) -> bool:
    """Say whether a secret, or most of a long one, is still there."""
    return any(part in shown or (len(part) > 24 and part[-16:] in shown) for part in sample.leaks)


def test_of_more_than_200_forms_at_least_99_in_100_are_removed() -> None:
    missed = [sample.form for sample in SAMPLES if leaked(sample, redact_text(sample.text)[0])]
    assert len({sample.form for sample in SAMPLES}) >= 300
    assert len(missed) <= len(SAMPLES) // 100, missed


def test_the_same_secrets_go_from_a_long_log() -> None:
    noise = "step 12 loss 0.4213 tokens/s 12034.2 lr 3e-4\n" * 20
    log = "".join(noise + sample.text + "\n" for sample in SAMPLES)
    shown, count = redact_text(log)
    missed = [sample.form for sample in SAMPLES if leaked(sample, shown)]
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


ORDINARY = r"""
tokens=1024 max_tokens: 512 num_tokens_per_sec=1234.5 tokens/s: 10,234.11 total_tokens: 1_000_000
pad_token='<pad>' eos_token_id: 2 bos_token="<s>" unk_token: <unk> "eos_token": "<|endoftext|>", "pad_token": "[PAD]"
special_tokens_map.json tokenizer.json tokenizer_config.json vocab.json merges.txt
"added_tokens_decoder": {"128000": {"content": "<|begin_of_text|>", "lstrip": false}}
INFO 08-12 01:42:31 [core.py:72] Initializing a V1 LLM engine (v0.10.1.dev566+g8c565a836) with config: model='Qwen2'
Avg prompt throughput: 1024.0 tokens/s, Avg generation throughput: 33.1 tokens/s, Running: 4 reqs
ValueError: Asking to pad but the tokenizer does not have a padding token. Please select a token to use as `pad_token`
UserWarning: The secret `HF_TOKEN` does not exist in your Colab secrets.
To authenticate with the Hugging Face Hub, set HF_TOKEN=<your token> in your environment
huggingface_hub.errors.LocalTokenNotFoundError: Token is required (`token=True`), but no token found.
SyntaxError: Unexpected token '<', "<!DOCTYPE "... is not valid JSON
json: unexpected token: identifier
psycopg2.OperationalError: FATAL:  password authentication failed for user "joe"
Password must be at least 8 characters long
{"password": ["This field is required."]}
Enter password:
child.expect("Password:"); child.sendline(secret)
password: required
usage: train.py [-h] [--token TOKEN] [--password PASSWORD] [--api-key API_KEY]
  --token TOKEN         Hugging Face token
please pass --token or --password instead of the URL
    token = get_token(args)
    password = getpass.getpass()
    api_key = os.environ["OPENAI_API_KEY"]
    client = OpenAI(api_key=settings.openai.api_key)
    login(token=token, password=password)
    conn = _Client(address, authkey=authkey, db_password=self._password, pwd=pwd)
    raise AuthError(f"bad token {token} for {user}")
export HF_TOKEN=$HF_TOKEN
docker run -e HF_TOKEN="${HF_TOKEN}" -e WANDB_API_KEY=$(cat key) image
PWD=/home/joe/runs OLDPWD=/home/joe
pwd: /scratch/joe
--token-file /run/secrets/hf_token --password-file=/etc/pw
TOKEN_FILE=/run/secrets/token
secret: /run/secrets/hf
commit 3433518e5c1a9f0d2b7c6e8f9a0b1c2d3e4f5a6b
HEAD is now at 84f1909 Wait for logs to be complete
wandb: Run data is saved locally in /home/joe/wandb/run-20261129_145138-3f9a1c2e
wandb: Syncing run fresh-sunset-12
run_id: 3f9a1c2e-9b7d-4c1e-8a55-0d6f1e2b3c4d
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
model-00001-of-00004-9f86d081884c7d659a2feaa0c55ad015.safetensors
tensor([[ 0.1234, -0.5678], [1.0e-05, nan]], device='cuda:0', grad_fn=<AddBackward0>)
tensor(b'gASVKAAAAAAAAACMBW51bXB5lIwFZHR5cGWUk5Q=')
GPU-8f3c2a1e-0b5d-4e6f-9a7b-1c2d3e4f5a6b NVIDIA H200
MLX5_0: GUID 0x506b4b0300a1b2c3 lid 12
NCCL INFO comm 0x55d2c8a0 rank 3 nranks 8 cudaDev 3 busId 8a000 commId 0x1234567890abcdef
KeyError: 'secret_key'
KeyError: 'token'
AttributeError: 'NoneType' object has no attribute 'token'
api_key=None token=None password=None secret=***
auth=none auth_type=basic authentication: ok authorization: failed
sort_key=name primary_key: id foreign_key=user_id cache_key=abc12 state_dict_key='layers.0.weight'
key=model.layers.0.self_attn.q_proj.weight expected=4096 got=2048
tokens_per_batch=4096 token_dropout: 0.1 token_type_ids=[0, 0] first_token_latency_ms=12 time_per_token=0.031
class Token: ... def pass_through(self): pass
first_pass=1 second_pass=0 PASS: tests/test_login1.py PASS=12 FAIL=3
[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered
Traceback (most recent call last): File "/home/joe/token/secret/password.py", line 3, in <module>
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0 joe@node03
ssh -i ~/.ssh/id_ed25519 joe@node03 git@github.com:joe/repo.git ssh://git@github.com/joe/repo
tcp://127.0.0.1:29500 http://localhost:8080/?step=12 s3://bucket/key file:///tmp/x@y
sk-learn-contrib-imbalanced-learning disk-usage-monitor task-scheduler-with-a-long-name
docker run -u 1000:1000 --user 1000:1000 image
Bearer token required; basic authentication is disabled
cookies enabled; magic cookie: 0x1f8b0800
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
eval "$(gpualert init bash)"
  tokenizer_type .................................. GPT2BPETokenizer
  max_tokens_to_oom ............................... 12000
  hf_token ........................................ None
| token | count | password | required |
| pad_token | <pad> | eos_token | </s> |
Loading tokenizer ... done; waiting for token | next step
"""


@pytest.mark.parametrize("line", ORDINARY.strip().split("\n"))
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


HOSTILE = [announced.anchor for announced in secret_forms.ANNOUNCED] + list(secret_forms.NAME_ANCHORS)
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
