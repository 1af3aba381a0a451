"""A server of a folder in a process of its own: who asks it takes no time of anybody else's.

The threads of a server that is within a party take the party's one lock of Python in turn, so that
a few dozen clients, who ask for nothing but what there is not, make it a hundred times slower.
`python -m moot.offchain.datastore.alone FOLDER HOST PORT` says where it serves in a line of JSON,
and ends with its input: it never outlives whoever has begun it.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from moot.offchain.children import end_by_input, say, start
from moot.offchain.datastore.server import Server
from moot.offchain.errors import StoreError

NICENESS = 10
"""Whoever serves leaves the processor to whoever has a clock."""
END_S = 5.0


class ServerProcess:
    """A process that serves a folder; a context manager that ends it.

    Args:
        path: the folder, which has to exist.
        host: the address to listen at.
        port: the port; 0 for any that is free.

    Attributes:
        url: where it serves.
    """

    def __init__(self, path: Path, host: str, port: int) -> None:
        self._path, self._host, self._port = path, host, port
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        """Begin to serve.

        Raises:
            StoreError: the folder cannot be read, or the address is not to be had.
        """
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def tend(self) -> None:
        """Serve again, at the same port, where the process has ended by itself."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            with suppress(StoreError):  # it is tried again
                self._start()

    def _start(self) -> None:
        where = (str(self._path), self._host, str(self._port))
        self._process = process = start("moot.offchain.datastore.alone", *where)
        assert process.stdout is not None
        line = process.stdout.readline()
        about = json.loads(line) if line.endswith("\n") else {}
        if "url" not in about:
            self._end()
            raise StoreError(
                about.get("problem", f"the process that serves {self._path} has ended")
            )
        self.url = about["url"]
        self._port = urlsplit(self.url).port or self._port

    def _end(self) -> None:
        """End the process by the end of its input."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdout is not None
        end_by_input(process, END_S)
        process.stdout.close()


def main() -> None:
    """Serve a folder until the input ends."""
    path, host, port = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        server = Server(Path(path), host, int(port))
    except StoreError as error:
        say(sys.stdout, {"problem": str(error)})
        return
    say(sys.stdout, {"url": server.url})
    with server.serving():
        sys.stdin.read()
        os._exit(0)  # whatever its threads are at


if __name__ == "__main__":
    main()
