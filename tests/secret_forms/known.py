"""
Makes made-up secrets in the places where real ones turn up, from a fixed seed.

Written from the issuers' documentation of what their keys look like, not from the patterns under test.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

from secret_forms.forms import Sample

SEED = 20261129
ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"

Maker = Callable[[random.Random], str]


def of(alphabet: str, length: int, prefix: str = "", suffix: str = "") -> Maker:
    """Return a maker of random strings; each holds a digit and a letter, as issuers' do."""

    def make(rng: random.Random) -> str:
        body = [rng.choice(alphabet) for _ in range(length)]
        body[0], body[1] = (
            rng.choice([c for c in alphabet if c.isalpha()]),
            rng.choice([c for c in alphabet if c.isdigit()]),
        )
        return prefix + "".join(body) + suffix

    return make


def jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    header, claims = {"alg": "HS256", "typ": "JWT"}, {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9)}
    return f"{part(header)}.{part(claims)}.{of(URLSAFE, 43)(rng)}"


# Recognisable wherever they stand.
ISSUED: dict[str, Maker] = {
    "aws-id": of(string.ascii_uppercase + "234567", 16, "AKIA"),
    "aws-session-id": of(string.ascii_uppercase + "234567", 16, "ASIA"),
    "gcp-key": of(URLSAFE, 35, "AIza"),
    "gcp-oauth": of(URLSAFE, 60, "ya29."),
    "gcp-client": of(URLSAFE, 28, "GOCSPX-"),
    "huggingface": of(ALNUM, 34, "hf_"),
    "wandb-v1": of(ALNUM, 70, "wandb_v1_"),
    "github-classic": of(ALNUM, 36, "ghp_"),
    "github-oauth": of(ALNUM, 36, "gho_"),
    "github-server": of(ALNUM, 36, "ghs_"),
    "github-fine": lambda rng: f"github_pat_{of(ALNUM, 22)(rng)}_{of(ALNUM, 59)(rng)}",
    "gitlab": of(URLSAFE, 20, "glpat-"),
    "gitlab-runner": of(URLSAFE, 20, "glrt-"),
    "slack-bot": lambda rng: (
        f"xoxb-{rng.randrange(10**11, 10**12)}-{rng.randrange(10**12, 10**13)}-{of(ALNUM, 24)(rng)}"
    ),
    "slack-user": lambda rng: (
        f"xoxp-{rng.randrange(10**11, 10**12)}-{rng.randrange(10**11, 10**12)}-{of(HEX, 32)(rng)}"
    ),
    "slack-app": lambda rng: f"xapp-1-A{of(ALNUM, 10)(rng)}-{rng.randrange(10**12, 10**13)}-{of(HEX, 64)(rng)}",
    "openai": of(ALNUM, 48, "sk-"),
    "openai-project": of(URLSAFE, 120, "sk-proj-"),
    "anthropic": of(URLSAFE, 93, "sk-ant-api03-", "AA"),
    "openrouter": of(HEX, 64, "sk-or-v1-"),
    "groq": of(ALNUM, 52, "gsk_"),
    "replicate": of(ALNUM, 37, "r8_"),
    "nvidia": of(URLSAFE, 64, "nvapi-"),
    "stripe-live": of(ALNUM, 24, "sk_live_"),
    "stripe-restricted": of(ALNUM, 24, "rk_live_"),
    "sendgrid": lambda rng: f"SG.{of(URLSAFE, 22)(rng)}.{of(URLSAFE, 43)(rng)}",
    "npm": of(ALNUM, 36, "npm_"),
    "pypi": of(URLSAFE, 100, "pypi-AgEIcHlwaS5vcmc"),
    "databricks": of(HEX, 32, "dapi"),
    "digitalocean": of(HEX, 64, "dop_v1_"),
    "docker": of(URLSAFE, 27, "dckr_pat_"),
    "vault": of(ALNUM, 90, "hvs."),
    "grafana": lambda rng: f"glsa_{of(ALNUM, 32)(rng)}_{of(HEX, 8)(rng)}",
    "telegram": lambda rng: f"{rng.randrange(10**9, 10**10)}:AA{of(URLSAFE, 33)(rng)}",
    "alibaba": of(ALNUM, 20, "LTAI"),
    "artifactory": of(ALNUM, 69, "AKCp"),
    "azure-ad": lambda rng: f"{of(ALNUM, 3)(rng)}8Q~{of(ALNUM, 34)(rng)}",
    "neptune": lambda rng: "eyJhcGlfYWRkcmVzcyI6" + of(ALNUM, 100)(rng) + "==",
    "jwt": jwt,
}

# Recognisable only by their name.
OPAQUE: dict[str, Maker] = {
    "hex40": of(HEX, 40),
    "hex64": of(HEX, 64),
    "uuid": lambda rng: "-".join(of(HEX, n)(rng) for n in (8, 4, 4, 4, 12)),
    "base64": of(BASE64, 40),
    "padded": of(BASE64, 43, suffix="="),
    "alnum20": of(ALNUM, 20),
    "chosen": lambda rng: (
        rng.choice(["Hunter", "Summer", "Tiger", "dragon"]) + str(rng.randrange(10, 9999)) + rng.choice("!?#%")
    ),
}

PLACES: dict[str, Callable[[str], str]] = {
    "in a sentence": lambda s: f"2026-11-29 14:51:38 INFO using {s} for the upload",
    "in parentheses": lambda s: f"ValueError: bad credentials ({s})",
    "JSON value": lambda s: json.dumps({"step": 12, "value": s, "lr": 1e-4}),
    "escaped JSON": lambda s: json.dumps({"line": json.dumps({"x": s})}),
    "after a newline escape": lambda s: json.dumps({"text": f"first\n{s}\nlast"}),
    "URL path": lambda s: f"GET https://api.example.org/v1/{s}/items 403",
    "URL query": lambda s: f"requests.exceptions.HTTPError: 401 for url: https://example.org/x?t={s}&page=2",
    "URL user": lambda s: f"Cloning into 'repo'... https://oauth2:{s}@git.example.org/a/b.git",
    "argument": lambda s: f"+ python upload.py --dest s3://bucket {s} --epochs 3",
    "repr": lambda s: f"Namespace(lr=0.1, key='{s}', seed=3)",
    "set -x": lambda s: f"++ export X={s}",
}

# `{}` is the secret.
NAMED = {
    "env": "HF_TOKEN={}",
    "env export": "export WANDB_API_KEY={}",
    "env quoted": 'export DB_PASSWORD="{}"',
    "env list": "  'MLFLOW_TRACKING_PASSWORD': '{}', 'HOME': '/root',",
    "docker -e": "docker run -e API_TOKEN={} --gpus all image",
    "env aws": "AWS_SECRET_ACCESS_KEY={}",
    "env session": "AWS_SESSION_TOKEN={}",
    "ini aws": "aws_secret_access_key = {}",
    "option": "python train.py --password {} --epochs 3",
    "option equals": "python train.py --api-key={} --epochs 3",
    "option token": "huggingface-cli login --token {} --add-to-git-credential",
    "option list": "['python', 'train.py', '--auth-token', '{}', '--lr', '1']",
    "hydra": "python train.py model=big logger.wandb.api_key={} seed=1",
    "JSON": '{{"user": "joe", "api_key": "{}", "n": 3}}',
    "JSON compact": '{{"user":"joe","password":"{}","n":3}}',
    "JSON escaped": '{{"line": "{{\\"client_secret\\": \\"{}\\", \\"n\\": 3}}"}}',
    "JSON camel": '{{"accessToken": "{}", "expiresIn": 3600}}',
    "JSON header": '{{"headers": {{"X-Api-Key": "{}", "Accept": "*/*"}}}}',
    "YAML": "smtp:\n  user: joe\n  password: {}\n  port: 587",
    "YAML token": "hub:\n  token: {}\n  private: true",
    "YAML quoted": "client_secret: '{}'",
    "YAML list": "env:\n  - name: x\n  - SECRET_KEY: {}\n",
    "dict repr": "config = {{'lr': 0.1, 'secret_key': '{}', 'n': 3}}",
    "bytes repr": "{{'auth_token': b'{}'}}",
    "namespace": "Namespace(batch_size=32, hf_token='{}', lr=0.1)",
    "dataclass": "Settings(host='db', db_password='{}', port=5432)",
    "traceback local": "    password = '{}'\n    │ connection = None",
    "pytest local": "access_token = '{}'",
    "call": "    login(token='{}')\nHTTPError: 401",
    "environ": "os.environ['OPENAI_API_KEY'] = '{}'",
    "curl header": "curl -H 'Authorization: Bearer {}' https://example.org",
    "header": "Authorization: Bearer {}",
    "header token": "> Authorization: token {}",
    "header dict": "headers={{'Authorization': 'Bearer {}', 'Accept': '*/*'}}",
    "header bytes": "(b'Authorization', b'Bearer {}')",
    "header basic": "Proxy-Authorization: Basic {}",
    "header key": "X-Api-Key: {}",
    "header private": "PRIVATE-TOKEN: {}",
    "header auth": "X-Auth-Token: {}",
    "cookie": "Cookie: theme=dark; sessionid={}; lang=en",
    "set-cookie": "< Set-Cookie: session={}; Path=/; HttpOnly",
    "http.client": "send: b'GET / HTTP/1.1\\r\\nAuthorization: Bearer {}\\r\\nHost: x\\r\\n'",
    "URL password": "sqlalchemy.exc.OperationalError: postgresql://joe:{}@db.example.org:5432/runs",
    "URL redis": "redis.exceptions.ConnectionError: redis://:{}@cache:6379/0",
    "URL mongo": "mongodb+srv://joe:{}@c0.example.net/?retryWrites=true",
    "URL proxy": "https_proxy=http://joe:{}@proxy.example.org:3128",
    "URL token": "https://example.org/dl?access_token={}&x=1",
    "URL signature": "https://b.s3.amazonaws.com/k?X-Amz-Expires=3600&X-Amz-Signature={}",
    "URL sas": "https://a.blob.core.windows.net/c/f?sv=2024-11-04&se=2026-12-01&sig={}",
    "git": "remote: fatal: could not read from 'https://joe:{}@github.com/a/b.git'",
    "dsn": "host=db user=joe password={} dbname=runs",
    "ado": "Server=db;User Id=sa;Password={};Encrypt=true",
    "azure": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=core.windows.net",
    "service bus": "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}",
    "jdbc": "jdbc:mysql://db/runs?user=joe&password={}",
    "netrc": "machine api.wandb.ai login user password {}",
    "netrc lines": "machine example.org\n  login joe\n  password {}\n",
    "npmrc": "//registry.npmjs.org/:_authToken={}",
    "pip conf": "index-url = https://joe:{}@pypi.example.org/simple",
    "docker config": '{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}',
    "curl -u": "curl -fsS -u joe:{} https://example.org/x",
    "sshpass": "sshpass -p {} ssh node03 nvidia-smi",
    "mysql": "mysqldump -u root -p{} runs",
    "redis-cli": "redis-cli -h cache -a {} ping",
    "docker login": "docker login -u joe -p {} ghcr.io",
    "aws configure": "aws configure set aws_secret_access_key {}",
    "sql": "CREATE USER joe IDENTIFIED BY '{}'",
    "xml": "<server><username>joe</username><password>{}</password></server>",
    "slack hook": "https://hooks.slack.com/services/T00000000/B00000000/{}",
    "discord hook": "https://discord.com/api/webhooks/1234567890/{}{}",
    "terraform": 'variable "db_password" = "{}"',
    "toml": 'api_token = "{}"',
    "ruby": ":password => '{}'",
    "logger": "INFO config | secret: {} | retries: 3",
    "rich": "│   api_key = '{}'                    │",
    "sentence": "ERROR login failed with password={}, giving up",
    "arguments dump": "  wandb_api_key ................................... {}",
    "table": "| db_password | {} | string |",
    "box": "│ hf_token │ {} │",
    "argparse repr": "args: ['--hub_token={}', '--lr=0.1']",
    "printenv dump": "environ({{'HF_TOKEN': '{}', 'PATH': '/usr/bin'}})",
    "jupyter": "    http://127.0.0.1:8888/lab?token={}",
    "ray": "ray start --head --redis-password='{}'",
    "mask none": "auth_token: {}",
}
WANDB = {
    "wandb login": "wandb login --relogin {}",
    "wandb key": "wandb: Using key {}",
    "wandb.login": "wandb.login(key='{}')",
    "wandb prompt": "wandb: Paste an API key from your profile and hit enter: {}",
    "wandb env": "WANDB_API_KEY={}",
}
# Places that chosen passwords, or keys with `/` and `+`, do not go to unencoded.
_ENCODED = (
    "URL",
    "git",
    "jdbc",
    "docker config",
    "header",
    "curl header",
    "http.client",
    "cookie",
    "set-cookie",
    "slack",
    "discord",
    "pip",
)


def samples() -> Iterator[Sample]:
    """Yield every form once, each with its own secret, always the same ones."""
    rng = random.Random(SEED)
    places = list(PLACES.items())
    for number, (kind, make) in enumerate(ISSUED.items()):
        for offset in range(4):
            place, write = places[(3 * number + offset) % len(places)]
            secret = make(rng)
            yield Sample(f"{kind}, {place}", write(secret), (secret.rpartition(":")[2],))
    opaque = list(OPAQUE.items())
    for number, (place, text) in enumerate(NAMED.items()):
        for offset in range(2):
            kind, make = opaque[(2 * number + offset) % len(opaque)]
            if place.startswith(_ENCODED) and kind in ("chosen", "base64", "padded", "uuid"):
                kind, make = "alnum40", of(ALNUM, 40)
            secret = make(rng)
            yield Sample(f"{kind}, {place}, {offset}", text.format(*[secret] * 2), (secret,))
    for place, text in WANDB.items():
        secret = of(HEX, 40)(rng)
        yield Sample(f"hex40, {place}", text.format(secret), (secret,))
    yield from _keys(rng)


def _keys(rng: random.Random) -> Iterator[Sample]:
    """Yield private keys: over lines, in JSON, indented, with its beginning or its end cut off."""
    for label in ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        lines = [of(BASE64, 64)(rng) for _ in range(12)] + [of(BASE64, 30)(rng) + "=="]
        pem = "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])
        yield Sample(f"{label}, lines", f"before\n{pem}\nafter", tuple(lines))
        yield Sample(f"{label}, JSON", json.dumps({"type": "service_account", "private_key": pem + "\n"}), tuple(lines))
        yield Sample(
            f"{label}, indented", "key: |\n" + "\n".join("    " + line for line in pem.split("\n")), tuple(lines)
        )
        yield Sample(f"{label}, no beginning", "\n".join([*lines, f"-----END {label}-----", "after"]), tuple(lines))
        yield Sample(f"{label}, no end", "\n".join([f"-----BEGIN {label}-----", *lines, "loss 0.3"]), tuple(lines))
