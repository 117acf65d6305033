"""Ports that somebody else has."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.servers import served, with_server

RECIPES = [
    produced(
        "port_in_use/http_server",
        "A second server on one port.",
        "OSError: [Errno 98] Address already in use",
        "python -m http.server 8000",
        files=with_server({}),
        launch=served("401", "python -m http.server 8000 --bind 127.0.0.1"),
    ),
    produced(
        "port_in_use/rendezvous_socket",
        "A master's socket on a port that the last run still holds, after 1,100 lines.",
        "OSError: [Errno 98] Address already in use",
        "python -u launch.py",
        files=with_server(
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
        launch=served("silent", "python -u launch.py", 29500),
    ),
    produced(
        "port_in_use/node",
        "Node's own words.",
        "Error: listen EADDRINUSE: address already in use 127.0.0.1:8000",
        "node gateway.js",
        files=with_server(
            {
                "gateway.js": """\
console.log('gateway starting');
require('http').createServer().listen(8000, '127.0.0.1');
"""
            }
        ),
        launch=served("silent", "node gateway.js"),
        framework="node",
        uses=("node",),
    ),
    produced(
        "port_in_use/asyncio_server",
        "asyncio tells address and port.",
        "error while attempting to bind on address ('127.0.0.1', 6006): address already in use",
        "python board.py",
        files=with_server(
            {
                "board.py": """\
import asyncio


async def main():
    print('board on 127.0.0.1:6006', flush=True)
    await asyncio.start_server(lambda r, w: None, '127.0.0.1', 6006)


asyncio.run(main())
"""
            }
        ),
        launch=served("silent", "python board.py", 6006),
    ),
    produced(
        "port_in_use/java_bind",
        "A BindException in Java.",
        "java.net.BindException: Address already in use",
        "java Serve.java",
        files=with_server(
            {
                "Serve.java": """\
import java.net.*;
public class Serve {
  public static void main(String[] a) throws Exception {
    System.out.println("starting worker RPC");
    new ServerSocket(7077, 5, InetAddress.getByName("127.0.0.1"));
  }
}
"""
            }
        ),
        launch=served("silent", "java Serve.java", 7077),
        framework="java",
        uses=("java",),
    ),
    produced(
        "port_in_use/own_words",
        "A program that checks and says so in its own words.",
        "FATAL: coordinator port 12345 is taken by another process",
        "python coordinator.py",
        files=with_server(
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
        launch=served("silent", "python coordinator.py", 12345),
    ),
]
