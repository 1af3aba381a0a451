"""A net to try the court on: a node, a referee, a store and providers, each a process of its own.

All of it is on loopback and in one folder; keys are made for it, under a password that is kept
there, too. Nothing outlives the `Testnet` but the folder.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any, Self

from moot.contracts.deployment import (
    deploy_availability,
    deploy_delivery,
    deploy_referee,
    deploy_service,
)
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.chain import Address, connect
from moot.offchain.chain.accounts import KeyAccount, create_keystore
from moot.offchain.chain.connection import Chain
from moot.offchain.chain.devnode.__main__ import LISTENING
from moot.offchain.chain.receipts import Transaction
from moot.offchain.children import wait_or_kill
from moot.offchain.errors import ChainError, MootError, UsageError
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import VARIABLES

LIGHT_SCRYPT = 2**12
"""Keys that everybody may have need not take long to open."""
FUND_WEI = 1_000 * 10**18
PAYMENT_GAS = 21_000
END_S = 20.0
CLIENT, VERIFIER, COMMON = "client", "verifier", "net.json"
PASSWORD = "testnet"  # noqa: S105 - of keys that everybody may have


@dataclass
class Testnet:
    """A net; a context manager that ends its processes.

    Attributes:
        folder: where everything is.
        moot: the command whose verbs the parties are.
        tell: takes events, those of the providers among them.
        block_seconds: time between blocks.
        arithmetic: that of the referee's programs.
        processes: those that run, by name.
        serving: where each provider serves its results, and `answering` where it answers.
        told: the events of all parties, by party and event.
        common: the settings that all parties have.
    """

    folder: Path
    moot: Sequence[str]
    tell: Tell
    block_seconds: float = 1.0
    arithmetic: str = "ordered"
    processes: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    serving: Queue[str] = field(default_factory=Queue)
    answering: Queue[str] = field(default_factory=Queue)
    told: Queue[tuple[str, str]] = field(default_factory=Queue)
    common: dict[str, object] = field(default_factory=dict)
    _kept: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._kept.callback(self._end)
        try:
            self._begin()
        except BaseException:
            self._kept.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def _begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "password").write_text(PASSWORD + "\n")
        (self.folder / "store").mkdir(exist_ok=True)
        seconds = str(self.block_seconds)
        node = (sys.executable, "-m", "moot.offchain.chain.devnode", "--block-seconds", seconds)
        line = _read_first("node", self.start("node", node))
        url = line.removeprefix(LISTENING).strip()
        serve = (*self.moot, "store", "serve", str(self.folder / "store"), "--json")
        served = json.loads(_read_first("store", self.start("store", serve)))
        with connect(url) as chain:
            referee = deploy_referee(chain, chain.accounts[0], find_arithmetic(self.arithmetic))
            promises = deploy_availability(chain, chain.accounts[0])
            premiums = deploy_delivery(chain, chain.accounts[0])
        self.tell("up", f"node {url}, referee {referee.address}, store {served['url']}")
        self.common = {
            "chain": url,
            "referee": referee.address,
            "availability": promises.address,
            "delivery": premiums.address,
            "store": served["url"],
            "password_from": f"file:{self.folder / 'password'}",
            "block_seconds": self.block_seconds,
            "arithmetic": self.arithmetic,
        }
        (self.folder / COMMON).write_text(json.dumps(self.common))
        self.configure(CLIENT, store=str(self.folder / "store"))

    def configure(self, name: str, **settings: object) -> Path:
        """Make a funded key and a file of settings for a party, and return the file."""
        return configure(self.folder, self.common, name, **settings)

    def add_provider(self, name: str, **settings: object) -> "subprocess.Popen[str]":
        """Start a provider, or start it again."""
        return self.add_party(name, ("provider", "run"), **settings)

    def add_service(self) -> Address:
        """Deploy a service, of which settings that are made later know; return its challenges."""
        with connect(str(self.common["chain"])) as chain:
            arithmetic = find_arithmetic(self.arithmetic)
            challenges, service = deploy_service(chain, chain.accounts[0], arithmetic)
        self.common["service"] = service.address
        (self.folder / COMMON).write_text(json.dumps(self.common))
        self.tell("service", f"service {service.address}", service=service.address)
        return Address(challenges.address)

    def show_court(self, referee: str = "") -> str:
        """Start the page of the court, or of another contract's matches; return its address."""
        place = referee or str(self.common["referee"])
        about = ("--chain", str(self.common["chain"]), "--referee", place)
        names = ("--published", str(self.common["store"]))
        command = (*self.moot, "court", *about, *names, "--port", "0", "--json")
        url: str = json.loads(_read_first("court", self.start("court", command)))["url"]
        return url

    def name_verifier(self) -> None:
        """Make a verifier's key, whose rulings everybody accepts whose settings are made later."""
        path = self.configure(VERIFIER)
        key = KeyAccount.open(path.with_suffix(".json"), PASSWORD)
        self.common["verifier"] = key.address
        self.configure(CLIENT, store=str(self.folder / "store"))

    def add_verifier(self, urls: Sequence[str] = ()) -> None:
        """Start the verifier that was named.

        Args:
            urls: where members serve what they hand over to it.
        """
        self.add_party(VERIFIER, ("verifier", "run"), results=",".join(urls))

    def add_party(
        self, name: str, verb: Sequence[str], **settings: object
    ) -> "subprocess.Popen[str]":
        """Start whoever acts by a verb of `moot` until it is ended, or start it again."""
        return self.add_hand(name, name, verb, **settings)

    def add_hand(
        self, account: str, name: str, verb: Sequence[str], **settings: object
    ) -> "subprocess.Popen[str]":
        """Start a process of a party's account, which may have others under other names."""
        config = self.configure(account, **settings)
        command = (*self.moot, *verb, "--config", str(config), "--json")
        process = self.start(name, command)
        assert process.stdout is not None
        reader = threading.Thread(target=self._relay, args=(name, process.stdout), daemon=True)
        reader.start()
        return process

    def call(self, name: str, verb: Sequence[str]) -> None:
        """Run a verb of `moot` with a party's settings to its end.

        Raises:
            MootError: it fails.
        """
        command = (*self.moot, *verb, "--config", str(self.folder / f"{name}.toml"), "--json")
        process = self.start(f"{name}'s call", command)
        assert process.stdout is not None
        self._relay(name, process.stdout)
        if process.wait():
            raise MootError(f"`moot {' '.join(verb)}` of {name} has failed; see above")

    def await_event(self, party: str, event: str, patience_s: float) -> None:
        """Wait until a party tells of something.

        Raises:
            MootError: it does not in time.
        """
        ends = time.monotonic() + patience_s
        with suppress(Empty):
            while (left := ends - time.monotonic()) > 0:
                if self.told.get(timeout=left) == (party, event):
                    return
        raise MootError(f"nothing was {event} by {party} within {patience_s:g} s; see above")

    def start(self, name: str, command: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a process, which ends with the net; one of the same name has ended before."""
        if name in self.processes:
            _close(self.processes[name])
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=_clean(os.environ),
            start_new_session=True,
        )
        self.processes[name] = process
        return process

    def await_results(self, count: int, patience_s: float) -> list[str]:
        """Wait until so many providers serve, and return where."""
        try:
            return [self.serving.get(timeout=patience_s) for _ in range(count)]
        except Empty:
            raise MootError("the providers do not begin in time; see their lines above") from None

    def await_answers(self, patience_s: float) -> str:
        """Wait until one more provider answers, and return where."""
        try:
            return self.answering.get(timeout=patience_s)
        except Empty:
            raise MootError("the model is not served in time; see the lines above") from None

    def _relay(self, name: str, lines: IO[str]) -> None:
        """Tell the events of a provider as the net's."""
        for line in lines:
            about: dict[str, Any] = json.loads(line)
            if about["event"] in {"serving", "answering"}:
                queue = self.serving if about["event"] == "serving" else self.answering
                queue.put(about["url"])
            event, text = about.pop("event"), about.pop("line")
            self.told.put((name, event))
            self.tell(event, f"[{name}] {text}", party=name, **about)

    def _end(self) -> None:
        """End all processes, the parties before what they stand on."""
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in reversed(self.processes.values()):
            wait_or_kill(process, END_S)
            _close(process)


def read_common(folder: Path) -> dict[str, object]:
    """Return the settings that all parties of a net have, from its folder."""
    try:
        common: dict[str, object] = json.loads((folder / COMMON).read_text())
    except (OSError, ValueError):
        raise UsageError(
            f"no net is in {folder}; start one: moot testnet up --folder {folder}"
        ) from None
    return common


def configure(folder: Path, common: Mapping[str, object], name: str, /, **settings: object) -> Path:
    """Make a funded key and a file of settings for a party of a net, and return the file."""
    key = folder / f"{name}.json"
    if not key.exists():
        create_keystore(key, PASSWORD, scrypt_n=LIGHT_SCRYPT)
    # A key may be older than the chain, which begins anew with each net.
    address = KeyAccount.open(key, PASSWORD).address
    with connect(str(common["chain"])) as chain:
        if chain.balance(address) < FUND_WEI // 2:
            _fund(chain, address)
    path = folder / f"{name}.toml"
    values = {**common, "key": str(key), "folder": str(folder / name), **settings}
    path.write_text("".join(f"{key} = {json.dumps(it)}\n" for key, it in values.items()))
    return path


def _close(process: "subprocess.Popen[str]") -> None:
    """Give up the output of a process that has ended."""
    process.wait()
    if process.stdout is not None:
        with suppress(OSError):
            process.stdout.close()


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without settings: those of a net are in its files."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}


def _read_first(name: str, process: "subprocess.Popen[str]") -> str:
    """Return the first line of a process."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise MootError(f"the {name} of the net did not begin; its error is above")
    return line


def _fund(chain: Chain, address: Address) -> None:
    gift = Transaction(
        chain.chain_id, "fund", chain.accounts[0], address, b"", FUND_WEI, PAYMENT_GAS
    )
    (answer,) = chain.send([gift])
    if isinstance(answer, ChainError):
        raise answer
