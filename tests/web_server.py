"""A real web server for tests, which keeps what it is asked and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class WebServer:
    """
    A web server on the loopback interface.

    Attributes:
        statuses: What to answer the next times instead of 200.
        calls: Path and body of each request.
        gate: While it is set and not open, requests get no answer.
    """

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    gate: threading.Event | None = None

    @contextmanager
    def running(self) -> Iterator[WebServer]:
        """Serve until the block ends."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                owner.calls.append((self.path, body.decode()))
                if owner.gate:
                    owner.gate.wait(60)
                self.send_response(owner.statuses.pop(0) if owner.statuses else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            server.daemon_threads = True
            self.port = server.server_address[1]
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield self
            server.shutdown()
