"""Services that cannot be reached, refuse, or stand in the way: network, authorisation, ports."""

from __future__ import annotations

from collections.abc import Mapping

from corpus.make.recipe import produced

_SERVER = """\
import http.server
import pathlib
import socket
import ssl
import struct
import sys

kind, port = sys.argv[1], int(sys.argv[2])


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(kind))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "26")
        if kind == "429":
            self.send_header("Retry-After", "3600")
        self.end_headers()
        self.wfile.write(b'{"error": "refused by us"}\\n'[:26])

    do_POST = do_HEAD = do_GET


if kind in ("reset", "silent"):
    server = socket.create_server(("127.0.0.1", port))
    pathlib.Path(".ready").touch()
    kept = []
    while True:
        client, _ = server.accept()
        if kind == "silent":
            kept.append(client)
            continue
        client.recv(4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
web = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
if kind == "200":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    web.socket = context.wrap_socket(web.socket, server_side=True)
pathlib.Path(".ready").touch()
web.serve_forever()
"""
_CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 3650 -subj /CN=hub.example.org"
    " -addext subjectAltName=DNS:localhost 2>/dev/null && chmod 644 key.pem"
)


def _served(kind: str, command: str, port: int = 8000) -> str:
    """Return lines of sh that run a command while a server answers in one way."""
    return (
        f"python server.py {kind} {port} >/dev/null 2>&1 &\nuntil [ -e .ready ]; do sleep 0.05; done\n"
        f"gpualert run -- {command}"
    )


def _with_server(files: Mapping[str, str]) -> dict[str, str]:
    return {"server.py": _SERVER, **files}


_FETCH = """\
import requests

print("fetching model card")
answer = requests.get("{url}", headers={{"Authorization": "Bearer none"}}, timeout=5)
answer.raise_for_status()
print(answer.json())
"""

RECIPES = [
    produced(
        "network/name_not_resolved",
        "A data set is downloaded on a node that resolves no names, after 1,100 lines.",
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        "python download.py",
        text="""\
import urllib.request

import chatter

for line in chatter.training(1100, seed=141, style=2):
    print(line)
print("downloading https://data.example.org/corpus/part-0002.tar")
urllib.request.urlopen("https://data.example.org/corpus/part-0002.tar", timeout=5)
""",
        evidence_alt=("socket.gaierror: [Errno -3] Temporary failure in name resolution",),
    ),
    produced(
        "network/connection_refused",
        "The tracking server is not running.",
        "Connection refused",
        "python track.py",
        text='import requests\n\nprint("registering run")\nrequests.post("http://localhost:5000/api/2.0/mlflow/runs/create", json={}, timeout=5)\n',
        framework="requests",
        uses=("requests",),
    ),
    produced(
        "network/self_signed_certificate",
        "A hub of the site with a self-signed certificate.",
        "certificate verify failed: self-signed certificate",
        "python hub.py",
        files=_with_server({"hub.py": _FETCH.format(url="https://localhost:8443/api/models/bert")}),
        prepare=_CERTIFICATE,
        launch=_served("200", "python hub.py", 8443),
        framework="requests",
        uses=("requests", "openssl"),
    ),
    produced(
        "network/connection_reset",
        "The server resets the connection amid the request.",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "python stream.py",
        files=_with_server(
            {
                "stream.py": "import logging\nimport urllib.request\n\nlogging.basicConfig(level=logging.INFO)\n"
                'logging.info("streaming shard 12")\nurllib.request.urlopen("http://localhost:8000/shard-12", timeout=5).read()\n'
            }
        ),
        launch=_served("reset", "python stream.py"),
    ),
    produced(
        "network/curl_in_a_script",
        "curl in a job script under set -e.",
        "curl: (6) Could not resolve host: download.example.org",
        "bash fetch.sh",
        text="set -euo pipefail\necho fetching weights\ncurl -fsSL https://download.example.org/resnet50.pth -o resnet50.pth\necho fetched\n",
        framework="bash",
        uses=("bash", "curl"),
    ),
    produced(
        "network/git_clone",
        "git clone on a node without a route.",
        "Could not resolve host: git.example.org",
        "git clone --depth 1 https://git.example.org/team/project.git code",
        framework="git",
        uses=("git",),
    ),
    produced(
        "network/read_timed_out",
        "A server that accepts and never answers; the client's time-out ends it.",
        "TimeoutError: timed out",
        "python ask.py",
        files=_with_server(
            {
                "ask.py": "import urllib.request\n\nprint('asking for a lease', flush=True)\n"
                'urllib.request.urlopen("http://localhost:8000/lease", timeout=1)\n'
            }
        ),
        launch=_served("silent", "python ask.py"),
    ),
    produced(
        "network/unreachable",
        "There is no route to an object store; the program says so in its own log format.",
        "upload failed: [Errno 101] Network is unreachable",
        "python -u upload.py",
        text="""\
import logging
import socket
import sys

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s s3upload: %(message)s")
try:
    logging.info("uploading checkpoint (3.1 GiB) to s3://models/run-4")
    socket.create_connection(("203.0.113.9", 443), timeout=3)
except OSError as error:
    logging.error("upload failed: %s", error)
    sys.exit(1)
""",
    ),
    produced(
        "network/too_many_requests",
        "The hub says 429: too many requests.",
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url",
        "python hub.py",
        files=_with_server({"hub.py": _FETCH.format(url="http://localhost:8000/api/models/llama")}),
        launch=_served("429", "python hub.py"),
        framework="requests",
        uses=("requests",),
        class_alt=("auth",),
    ),
    produced(
        "auth/unauthorised",
        "The hub says 401 to a token that it does not know.",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url",
        "python hub.py",
        files=_with_server({"hub.py": _FETCH.format(url="http://localhost:8000/api/models/gated")}),
        launch=_served("401", "python hub.py"),
        framework="requests",
        uses=("requests",),
    ),
    produced(
        "auth/forbidden_to_urllib",
        "The store says 403, after 1,050 lines.",
        "urllib.error.HTTPError: HTTP Error 403: Forbidden",
        "python pull.py",
        files=_with_server(
            {
                "pull.py": "import urllib.request\n\nimport chatter\n\nfor line in chatter.training(1050, seed=151, style=0):\n"
                "    print(line)\nurllib.request.urlopen('http://localhost:8000/bucket/key', timeout=5)\n"
            }
        ),
        launch=_served("403", "python pull.py"),
    ),
    produced(
        "auth/curl_forbidden",
        "curl --fail in a script.",
        "curl: (22) The requested URL returned error: 403",
        "sh -e get.sh",
        files=_with_server({"get.sh": "echo getting licence\ncurl -fsS http://localhost:8000/licence\necho got it\n"}),
        launch=_served("403", "sh -e get.sh"),
        framework="bash",
        uses=("curl",),
    ),
    produced(
        "auth/wget_unauthorised",
        "wget with a user name that the server does not take.",
        "401 Unauthorized",
        "wget -O data.tar http://localhost:8000/data.tar",
        files=_with_server({}),
        launch=_served("401", "wget -O data.tar http://user:none@localhost:8000/data.tar"),
        framework="wget",
        uses=("wget",),
        evidence_alt=("Username/Password Authentication Failed.",),
    ),
    produced(
        "auth/git_without_a_terminal",
        "git asks for a user name where there is nobody to ask.",
        "fatal: could not read Username for 'http://localhost:8000': terminal prompts disabled",
        "git clone http://localhost:8000/team/private.git",
        files=_with_server(
            {}
        ),
        launch=_served("401", "git clone http://localhost:8000/team/private.git").replace(
            "gpualert", "GIT_TERMINAL_PROMPT=0 gpualert"
        ),
        framework="git",
        uses=("git",),
    ),
    produced(
        "auth/token_expired",
        "A client of one's own explains the 401 in its own words, and leaves with status 2.",
        "error: access token has expired (401): log in again with `hub login`",
        "python -m hub download llama-nano",
        files=_with_server(
            {
                "hub/__init__.py": "",
                "hub/__main__.py": """\
import sys
import urllib.error
import urllib.request

try:
    urllib.request.urlopen("http://localhost:8000/api/whoami", timeout=5)
except urllib.error.HTTPError as error:
    if error.code == 401:
        print("error: access token has expired (401): log in again with `hub login`", file=sys.stderr)
    sys.exit(2)
""",
            }
        ),
        launch=_served("401", "python -m hub download llama-nano"),
    ),
    produced(
        "port_in_use/http_server",
        "A second server on one port.",
        "OSError: [Errno 98] Address already in use",
        "python -m http.server 8000",
        files=_with_server({}),
        launch=_served("401", "python -m http.server 8000 --bind 127.0.0.1"),
    ),
    produced(
        "port_in_use/rendezvous_socket",
        "A master's socket on a port that the last run still holds, after 1,100 lines.",
        "OSError: [Errno 98] Address already in use",
        "python -u launch.py",
        files=_with_server(
            {
                "launch.py": """\
import socket

import chatter

for line in chatter.training(1100, seed=161, style=4):
    print(line)
print("MASTER_ADDR=localhost MASTER_PORT=29500")
store = socket.socket()
store.bind(("127.0.0.1", 29500))
store.listen()
"""
            }
        ),
        launch=_served("silent", "python -u launch.py", 29500),
    ),
    produced(
        "port_in_use/node",
        "Node's own words.",
        "Error: listen EADDRINUSE: address already in use 127.0.0.1:8000",
        "node gateway.js",
        files=_with_server(
            {
                "gateway.js": "console.log('gateway starting');\n"
                "require('http').createServer().listen(8000, '127.0.0.1');\n"
            }
        ),
        launch=_served("silent", "node gateway.js"),
        framework="node",
        uses=("node",),
    ),
    produced(
        "port_in_use/asyncio_server",
        "asyncio tells address and port.",
        "error while attempting to bind on address ('127.0.0.1', 6006): address already in use",
        "python board.py",
        files=_with_server(
            {
                "board.py": "import asyncio\n\n\nasync def main():\n    print('board on 127.0.0.1:6006', flush=True)\n"
                "    await asyncio.start_server(lambda r, w: None, '127.0.0.1', 6006)\n\n\nasyncio.run(main())\n"
            }
        ),
        launch=_served("silent", "python board.py", 6006),
    ),
    produced(
        "port_in_use/java_bind",
        "A BindException in Java.",
        "java.net.BindException: Address already in use",
        "java Serve.java",
        files=_with_server(
            {
                "Serve.java": "import java.net.*;\npublic class Serve {\n  public static void main(String[] a) throws Exception {\n"
                '    System.out.println("starting worker RPC");\n'
                '    new ServerSocket(7077, 5, InetAddress.getByName("127.0.0.1"));\n  }\n}\n'
            }
        ),
        launch=_served("silent", "java Serve.java", 7077),
        framework="java",
        uses=("java",),
    ),
    produced(
        "port_in_use/own_words",
        "A program that checks and says so in its own words.",
        "FATAL: coordinator port 12345 is taken by another process",
        "python coordinator.py",
        files=_with_server(
            {
                "coordinator.py": """\
import socket
import sys

with socket.socket() as probe:
    if probe.connect_ex(("127.0.0.1", 12345)) == 0:
        print("FATAL: coordinator port 12345 is taken by another process", file=sys.stderr)
        sys.exit(3)
"""
            }
        ),
        launch=_served("silent", "python coordinator.py", 12345),
    ),
]
