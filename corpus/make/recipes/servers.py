"""A server beside the job, which answers in one way: what recipes of networks, authorisation and ports share."""

from __future__ import annotations

from collections.abc import Mapping

SERVER = """\
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
CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 3650 -subj /CN=hub.example.org"
    " -addext subjectAltName=DNS:localhost 2>/dev/null && chmod 644 key.pem"
)


def served(kind: str, command: str, port: int = 8000) -> str:
    """Return lines of sh that run a command while a server answers in one way."""
    return (
        f"python server.py {kind} {port} >/dev/null 2>&1 &\nuntil [ -e .ready ]; do sleep 0.05; done\n"
        f"gpualert run -- {command}"
    )


def with_server(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a job, and that of the server."""
    return {"server.py": SERVER, **files}


FETCH = """\
import requests

print("fetching model card")
answer = requests.get("{url}", headers={{"Authorization": "Bearer none"}}, timeout=5)
answer.raise_for_status()
print(answer.json())
"""
