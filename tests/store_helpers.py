"""Servers for tests of the data store: one of ours, and one that says what a test lets it say."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from moot.offchain.bounded_http import Bounds
from moot.offchain.datastore.server import Server
from tests.http_helpers import POLL_S

Answer = Callable[[socket.socket, str, int], None]
"""Sends whatever it likes: it is given the connection, the path, and where the range begins."""


@contextmanager
def serving(folder: Path, bounds: Bounds | None = None) -> Iterator[Server]:
    """Serve a folder in a thread."""
    with Server(folder, bounds=bounds) as server, server.serving(POLL_S):
        yield server


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve whatever `answer` sends, a thread for each connection; yield the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[Thread] = []
    connections: list[socket.socket] = []

    def talk(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head and (piece := connection.recv(65536)):
                head += piece
            lines = head.decode().splitlines()
            ranges = [line for line in lines if line.lower().startswith("range:")]
            first = int(ranges[0].partition("=")[2].rstrip("-")) if ranges else 0
            if lines:
                answer(connection, lines[0].split()[1], first)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                threads.append(Thread(target=talk, args=[connection]))
                threads[-1].start()

    acceptor = Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def send_head(connection: socket.socket, *headers: str, status: str = "200 OK") -> None:
    """Send what stands before a body."""
    lines = "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""])
    connection.sendall(lines.encode())
