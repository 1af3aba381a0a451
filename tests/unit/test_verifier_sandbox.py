"""The worker's cell: limits that hold, no network, no other programs, nothing loaded in vain."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def launch(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a process of its own."""
    return subprocess.run(  # noqa: S603 - this interpreter on the code of a test
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False
    )


def run(code: str, limits: str = "2**31, 60, 60") -> "subprocess.CompletedProcess[str]":
    """Run code in a process that has locked itself up."""
    enter = f"from moot.offchain.verifier.sandbox import Limits, enter; enter(Limits({limits}))"
    return launch(f"{enter}\n{code}")


def test_nothing_else_changes() -> None:
    """Ordinary code runs in the sandbox, threads included."""
    code = (
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "with Pool(2) as pool: print(sum(pool.map(abs, [-1, 2])))"
    )
    done = run(code)
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])",
        "import os; os.system('true')",
        "import os; os.fork()",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import pty; pty.spawn('true')",
    ],
)
def test_sockets_and_programs_are_refused(code: str) -> None:
    """Neither the network nor another program can be reached from Python."""
    done = run(code)
    assert done.returncode == 1
    assert "the bounded verifier does not do" in done.stderr


@pytest.fixture
def namespaces() -> None:
    """Skip the test where the system allows no network of one's own."""
    code = "from moot.offchain.verifier.sandbox import leave_network; print(leave_network())"
    if launch(code).stdout != "True\n":
        pytest.skip("this system allows no user namespaces")


@pytest.mark.usefixtures("namespaces")
def test_network_is_empty() -> None:
    """Even without the hook, not even a listener on this machine can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        code = (
            "import socket; from moot.offchain.verifier.sandbox import leave_network\n"
            "leave_network()\n"
            f"print(socket.socket().connect_ex({address}))"
        )
        assert int(launch(code).stdout) != 0
        with socket.create_connection(address):
            pass


@pytest.mark.usefixtures("namespaces")
def test_worker_is_on_that_network() -> None:
    """Locking itself up, the process leaves the network of the system."""
    own = str(Path("/proc/self/ns/net").readlink())
    assert run("import os; print(os.readlink('/proc/self/ns/net'))").stdout.strip() != own
    assert launch("import os; print(os.readlink('/proc/self/ns/net'))").stdout.strip() == own


def test_memory_is_limited() -> None:
    """An allocation above the limit fails, one below it does not."""
    code = "bytearray(2**27)\ntry: bytearray(2**29)\nexcept MemoryError: print('refused')"
    assert run(code, "2**28, 60, 60").stdout == "refused\n"


def test_processor_time_is_limited() -> None:
    """A busy process is ended by the system."""
    assert run("while True: pass", "2**31, 1, 60").returncode == -signal.SIGXCPU


def test_time_is_limited() -> None:
    """An idle process is ended by the system, even if nobody waits for it any more."""
    assert run("import time; time.sleep(60)", "2**31, 60, 0.1").returncode == -signal.SIGALRM


def test_files_are_limited() -> None:
    """The disk cannot be filled with one file."""
    code = (
        "import tempfile\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    file.truncate(2**26)\n"
        "    try: file.truncate(2**26 + 1)\n"
        "    except OSError: print('refused')\n"
    )
    assert run(code).stdout == "refused\n"


def test_crash_leaves_no_image() -> None:
    """A crash does not write the tensors that were in memory to a file."""
    code = (
        "import resource; from moot.offchain.verifier.sandbox import Limits, enter\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_CORE)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)); enter(Limits(2**31, 60, 60))\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    assert launch(code).stdout == "0\n"


def test_limits_stay() -> None:
    """The process cannot raise its own limits again."""
    code = (
        "import resource\n"
        "try: resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40))\n"
        "except (ValueError, PermissionError): print('refused')\n"
    )
    assert run(code).stdout == "refused\n"


def test_cell_is_closed_before_numerical_code_is_loaded() -> None:
    """The worker's own module brings in nothing that computes or that starts threads."""
    done = run("import moot.offchain.verifier.worker, sys; print('numpy' in sys.modules)")
    assert done.stdout == "False\n"


def test_worker_loads_what_it_needs() -> None:
    """What computes comes without torch, web3 and the compiler of contracts."""
    heavy = "{'torch', 'web3', 'vyper', 'eth', 'eth_tester', 'transformers'}"
    code = f"import moot.offchain.verifier.recompute, sys; print({heavy} & set(sys.modules))"
    done = run(code)
    assert done.stdout == "set()\n", done.stderr
