"""What a file's name says about it: worth sending, a data set, a secret."""

from __future__ import annotations

import re

TEXT_SUFFIXES = frozenset(
    [
        ".txt",
        ".log",
        ".out",
        ".err",
        ".csv",
        ".tsv",
        ".json",
        ".jsonl",
        ".yaml",
        ".yml",
        ".toml",
        ".md",
        ".html",
        ".htm",
    ]
)
BINARY_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".pdf": "application/pdf",
}
_MAGIC = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "application/pdf": b"%PDF"}

_SECRET_NAMES = re.compile(
    r"""\.env(?:\..*)?|.*\.env|id_(?:rsa|dsa|ecdsa|ed25519)(?!.*\.pub$).*|[._]netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc
    |\.git-credentials|\.?htpasswd|kubeconfig|\.dockercfg|\.?token(?:\.(?:txt|json|ya?ml))?
    |.*(?:credential|secret|passw).*|service[_-]?account.*\.json|\.\w+_history
    |.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|gpg|ovpn|keytab)""",
    re.VERBOSE | re.IGNORECASE,
)


def withheld(name: str) -> str:
    """Say why a file of this name never leaves, asked for or not; "" where it may."""
    return "withheld: its name says that it holds secrets" if _SECRET_NAMES.fullmatch(name) else ""


def not_by_default(name: str) -> str:
    """Say why a file of this name goes along only when asked for; "" for the kinds that people look at."""
    suffix = name[name.rfind(".") :].lower() if "." in name[1:] else ""
    if suffix in TEXT_SUFFIXES or suffix in BINARY_TYPES:
        return ""
    return "not attached by default; --attach sends it"


def is_binary(name: str, beginning: bytes) -> bool:
    """Say whether a file is what its name promises: a picture or a document, which cannot be redacted."""
    media_type = BINARY_TYPES.get(name[name.rfind(".") :].lower(), "")
    return bool(media_type) and beginning.startswith(_MAGIC[media_type])
