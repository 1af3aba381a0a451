"""Providers in this process on a node of their own, and an attacker who knows every name there is.

What is computed is computed here instead of in a process of the provider's; all else is the
provider's own: its folder, its server, its calls.
"""

import http.client
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from moot.contracts.reasons import LeafMode
from moot.offchain.chain import Chain
from moot.offchain.chain.accounts import create_keystore
from moot.offchain.chain.devnode.server import DevNode, serve
from moot.offchain.chain.receipts import Transaction
from moot.offchain.datastore.objects import EVIDENCE, HISTORIES, STATES, TENSORS, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.on_chain import ChainReferee, deploy
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties.computing import compute
from moot.offchain.parties.daemon import opened_daemon
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.provider import Provider
from moot.offchain.parties.serving import Stage
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import Checks, Errand, Result
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.sim_helpers import make_task

PASSWORD, FUND_WEI, REWARD_WEI = "stages", 100 * 10**18, 10**17
CONFIRMATIONS = 3
STAKES = Stakes(commit_blocks=20, reveal_blocks=16, window_blocks=20, clock_blocks=300)
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "parties.md"


class Inline:
    """A workshop that computes at once."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._asked: deque[int] = deque()

    def submit(self, errand: Errand) -> None:
        """Compute a job when results are collected next."""
        self._asked.append(errand.job_id)

    def cancel(self, job_id: int) -> None:
        """Compute a job no more."""
        if job_id in self._asked:
            self._asked.remove(job_id)

    def collect(self) -> list[Result]:
        """Compute what was asked for, unchecked."""
        context, results = self._provider.context, []
        while self._asked:
            job_id = self._asked.popleft()
            compute(context, Policy(), job_id, self._provider.folder, Checks.NONE)
            results.append(Result(job_id, "", is_final=False))
        return results


class Court:
    """A node, a referee, a store with a task, and providers; a context manager that ends them."""

    def __init__(self, folder: Path, leaf_mode: LeafMode = LeafMode.SCALAR) -> None:
        self.folder, self.leaf_mode = folder, leaf_mode
        self.task: Task = make_task()
        self._stack = ExitStack()
        self.told: list[tuple[str, dict[str, object]]] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.url = stack.enter_context(serve(DevNode(accounts=4)))
            self.referee: ChainReferee = deploy(self.url)
            put_task(open_store(str(self.folder / "store")), self.task)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def chain(self) -> Chain:
        """The chain, as others than the providers see it."""
        return self.referee.chain

    def open_job(self) -> int:
        """Open a job, let its confirmations pass, and return its number."""
        client, _, _, verifier = self.chain.accounts[:4]
        named = (verifier,) if self.leaf_mode is LeafMode.OPERATOR else ()
        terms = make_terms(self.task, STAKES, self.leaf_mode, *named)
        made = self.referee.transact("open_job", terms, sender=client, value_wei=REWARD_WEI)
        self.chain.mine(CONFIRMATIONS)
        return int(str(made.events[0].args[0]))

    @contextmanager
    def provider(self, name: str, **more: Any) -> Iterator[Provider]:
        """Yield a provider that serves, and acts when it is told to; a new one has money."""
        key, state = self.folder / f"{name}.json", self.folder / "state"
        if not key.exists():
            address, chain = create_keystore(key, PASSWORD, scrypt_n=2), self.chain
            gift = (chain.chain_id, "fund", chain.accounts[0], address, b"", FUND_WEI, 21_000)
            chain.send([Transaction(*gift)])
            (self.folder / "password").write_text(PASSWORD + "\n")
        settings = Settings(
            chain=self.url,
            referee=self.referee.address,
            key=str(key),
            password_from=f"file:{self.folder / 'password'}",
            store=str(self.folder / "store"),
            folder=str(self.folder / name),
            confirmations=CONFIRMATIONS,
            verifier=self.chain.accounts[3] if self.leaf_mode is LeafMode.OPERATOR else "",
            **more,
        )
        state.mkdir(exist_ok=True)

        def tell(event: str, line: str, **about: object) -> None:
            self.told.append((event, {"party": name, "line": line, **about}))

        with (
            opened_daemon(Provider, settings, tell) as daemon,
            daemon.folder.held(daemon.context.address),
            daemon._publisher.serving(),
        ):
            assert isinstance(daemon, Provider)
            daemon.workshop = Inline(daemon)  # type: ignore[assignment] # what it is asked for
            daemon._resume()
            yield daemon

    def find_url(self, name: str) -> str:
        """Return where a provider serves, as it said last."""
        told = [about for event, about in self.told if event == "serving"]
        return str([about["url"] for about in told if about["party"] == name][-1])

    def mine_to(self, block: int) -> None:
        """Let blocks pass up to one."""
        self.chain.mine(max(0, block - self.chain.block_number()))


class Asking:
    """An attacker's connection to a server, opened again where the server has ended it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer; the path is sent as it is."""
        try:
            self._connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                self._connection.putheader(name, value)
            self._connection.endheaders()
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        """End it."""
        self._connection.close()


def list_ways(url: str, name: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield ways to ask for one name: method, path and headers."""
    kind, _, rest = name.partition("/")
    quoted = "".join(f"%{ord(letter):02x}" for letter in rest[:2]) + rest[2:]
    paths = [f"/{name}", f"//{name}", f"/./{name}", f"/{kind}//{rest}", f"/{kind}/{quoted}"]
    paths += [f"/{name}?x", f"/{name}/", f"/{kind}/../{name}", f"/{name}#", f"{url}/{name}"]
    paths += [f"/{kind}/{rest.upper()}", f"/../results/{name}", f"/{kind}%2f{rest}"]
    for path in paths:
        yield "GET", path, {}
    yield "HEAD", f"/{name}", {}
    for wanted in ("bytes=0-0", "bytes=-1", "bytes=0-", "bytes=5-9", "bytes=0-0,2-2"):
        yield "GET", f"/{name}", {"Range": wanted}


def find_answered(url: str, names: Sequence[str]) -> set[str]:
    """Return the names that anything is told of, by whatever way somebody asks."""
    with closing(Asking(url)) as asking:
        status, listing = asking.ask("/")
        assert status == 200
        found = {line.split()[0] for line in listing.decode().splitlines()}
        for name in names:
            answers = [asking.ask(path, how, **more) for how, path, more in list_ways(url, name)]
            if any(status in {200, 206} or body for status, body in answers):
                found.add(name)
    return found


def list_names(court: Court, provider: Provider) -> list[str]:
    """Return what an attacker would ask for who sees all files of a provider, and all roots.

    These are its objects, its notes, what it has fetched and is writing, wherever they lie, and
    every state, tensor and history of an honest run, whether or not the provider keeps it.
    """
    folder = provider.context.folder
    paths = [it.relative_to(folder) for it in folder.rglob("*") if it.is_file()]
    names = {str(path) for path in paths} | {"/".join(path.parts[-2:]) for path in paths}
    run = Run(court.task, Behaviour(), Store(court.folder / "attacker"))
    run.compute()
    names.add(name_object(HISTORIES, run.history_root))
    for step in range(court.task.steps + 1):
        tree = run.state_tree(step)
        roots = [tree.node(0, place) for place in range(tree.count)]
        names |= {f"{kind}/{root.hex()}" for root in roots for kind in (STATES, TENSORS)}
    return sorted(names)


def read_table() -> dict[Stage, dict[str, bool]]:
    """Return what docs/how-to/parties.md says that is served at each stage."""
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = {}
    for name, _, *cells in rows:
        if (stage := name.strip("`").upper()) in Stage.__members__:
            words = zip((HISTORIES, STATES, EVIDENCE), cells, strict=True)
            found[Stage[stage]] = {kind: cell.startswith("yes") for kind, cell in words}
    return found
