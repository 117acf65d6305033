"""Services that refuse."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.servers import FETCH, served, with_server

RECIPES = [
    produced(
        "auth/unauthorised",
        "The hub says 401 to a token that it does not know.",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url",
        "python hub.py",
        files=with_server({"hub.py": FETCH.format(url="http://localhost:8000/api/models/gated")}),
        launch=served("401", "python hub.py"),
        framework="requests",
        uses=("requests",),
    ),
    produced(
        "auth/forbidden_to_urllib",
        "The store says 403, after 1,050 lines.",
        "urllib.error.HTTPError: HTTP Error 403: Forbidden",
        "python pull.py",
        files=with_server(
            {
                "pull.py": """\
import urllib.request

import chatter

for line in chatter.training(1050, seed=151, style=0):
    print(line)
urllib.request.urlopen('http://localhost:8000/bucket/key', timeout=5)
"""
            }
        ),
        launch=served("403", "python pull.py"),
    ),
    produced(
        "auth/curl_forbidden",
        "curl --fail in a script.",
        "curl: (22) The requested URL returned error: 403",
        "sh -e get.sh",
        files=with_server(
            {
                "get.sh": """\
echo getting licence
curl -fsS http://localhost:8000/licence
echo got it
"""
            }
        ),
        launch=served("403", "sh -e get.sh"),
        framework="bash",
        uses=("curl",),
    ),
    produced(
        "auth/wget_unauthorised",
        "wget with a user name that the server does not take.",
        "401 Unauthorized",
        "wget -O data.tar http://localhost:8000/data.tar",
        files=with_server({}),
        launch=served("401", "wget -O data.tar http://user:none@localhost:8000/data.tar"),
        framework="wget",
        uses=("wget",),
        evidence_alt=("Username/Password Authentication Failed.",),
    ),
    produced(
        "auth/git_without_a_terminal",
        "git asks for a user name where there is nobody to ask.",
        "fatal: could not read Username for 'http://localhost:8000': terminal prompts disabled",
        "git clone http://localhost:8000/team/private.git",
        files=with_server({}),
        launch=served("401", "git clone http://localhost:8000/team/private.git").replace(
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
        files=with_server(
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
        launch=served("401", "python -m hub download llama-nano"),
    ),
]
