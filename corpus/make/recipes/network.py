"""Services that cannot be reached."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.servers import CERTIFICATE, FETCH, served, with_server

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
        text="""\
import requests

print("registering run")
requests.post("http://localhost:5000/api/2.0/mlflow/runs/create", json={}, timeout=5)
""",
        framework="requests",
        uses=("requests",),
        evidence_alt=("urllib3.exceptions.NewConnectionError: ",),
        settled="A second line shows it as well.",
    ),
    produced(
        "network/self_signed_certificate",
        "A hub of the site with a self-signed certificate.",
        "certificate verify failed: self-signed certificate",
        "python hub.py",
        files=with_server({"hub.py": FETCH.format(url="https://localhost:8443/api/models/bert")}),
        prepare=CERTIFICATE,
        launch=served("200", "python hub.py", 8443),
        framework="requests",
        uses=("requests", "openssl"),
    ),
    produced(
        "network/connection_reset",
        "The server resets the connection amid the request.",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "python stream.py",
        files=with_server(
            {
                "stream.py": """\
import logging
import urllib.request

logging.basicConfig(level=logging.INFO)
logging.info("streaming shard 12")
urllib.request.urlopen("http://localhost:8000/shard-12", timeout=5).read()
"""
            }
        ),
        launch=served("reset", "python stream.py"),
    ),
    produced(
        "network/curl_in_a_script",
        "curl in a job script under set -e.",
        "curl: (6) Could not resolve host: download.example.org",
        "bash fetch.sh",
        text="""\
python3 chatter.py training 1211 --seed 503
set -euo pipefail
echo fetching weights
curl -fsSL https://download.example.org/resnet50.pth -o resnet50.pth
echo fetched
""",
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
        files=with_server(
            {
                "ask.py": """\
import urllib.request

print('asking for a lease', flush=True)
urllib.request.urlopen("http://localhost:8000/lease", timeout=1)
"""
            }
        ),
        launch=served("silent", "python ask.py"),
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
        files=with_server({"hub.py": FETCH.format(url="http://localhost:8000/api/models/llama")}),
        launch=served("429", "python hub.py"),
        framework="requests",
        uses=("requests",),
        class_alt=("auth",),
    ),
]
