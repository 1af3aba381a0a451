"""The seat of a shipped provider: its own code at a context of the simulated chain."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

from moot.contracts.model.types import NOBODY, Address
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain.accounts import FeePolicy, open_chain
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.connection import Contract
from moot.offchain.parties import daemon, serving
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.polled_referee import PolledReferee
from moot.offchain.parties.provider import Provider
from moot.offchain.parties.settings import Settings
from tests.arena.codec import Codec, Reader
from tests.arena.ledger import CHAIN_ID, REFEREE
from tests.arena.node import Node
from tests.arena.records import GWEI
from tests.arena.signing import Signer

Tell = Callable[..., None]


class Server:
    """What a provider serves, for whoever reads; stands for the store's HTTP server.

    Attributes:
        served: the folders that are served in this process.
    """

    served: list[Path] = []  # noqa: RUF012 - of the process

    def __init__(self, path: Path, *_: object, **__: object) -> None:
        self.served.append(path)
        self.url = "http://here"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def tend(self) -> None:
        """Do nothing: whoever reads finds the files."""


@contextmanager
def seated() -> Iterator[None]:
    """Let providers serve to whoever reads files, and contracts be found without a compiler."""
    stub = SimpleNamespace(abi=())
    with ExitStack() as stack:
        stack.enter_context(patch.object(serving, "ServerProcess", Server))
        for module in ("moot.offchain.disputes.referee.on_chain", "moot.offchain.parties.answers"):
            stack.enter_context(patch(f"{module}.compile_contract", lambda *_, **__: stub))
        yield


class Seat:
    """A provider at the arena: what it needs of its surroundings, and where it keeps its files.

    Args:
        address: its account.
        settings: what it is told.
        codec: what stands for values on the chain.
        nodes: its nodes by their addresses, in the order of preference.
        folder: where its files and its journal are.
        tell: takes its events.
    """

    def __init__(
        self,
        address: Address,
        settings: Settings,
        codec: Codec,
        nodes: dict[str, Node],
        folder: Path,
        tell: Tell,
    ) -> None:
        self.address, self.settings, self._codec = address, settings, codec
        self._nodes, self._folder, self._tell = nodes, folder, tell

    def run(self) -> None:
        """Be the provider until something ends it."""
        with (
            patch.object(daemon, "open_signers", lambda *_, **__: [Signer(self.address)]),
            patch.object(daemon, "connected_context", self._connect),
            daemon.opened_daemon(Provider, self.settings, self._tell) as provider,
        ):
            provider.run()

    def open_other_context(self) -> PartyContext:
        """Return a context that only looks, as the process that computes has one."""
        with self._opened_chain([]) as chain:
            return self._make_context(chain, NOBODY)

    @contextmanager
    def _connect(
        self, _settings: Settings, _tell: Tell, signers: list[Signer]
    ) -> Iterator[PartyContext]:
        """Open a context; see connected_context."""
        with self._opened_chain(signers) as chain:
            yield self._make_context(chain, self.address)

    @contextmanager
    def _opened_chain(self, signers: list[Signer]) -> Iterator[OwnChain]:
        policy = FeePolicy(
            max_fee_wei=int(self.settings.max_fee_gwei * GWEI),
            confirmations=self.settings.confirmations,
        )
        urls: Any = list(self._nodes)
        if len(urls) == 1:
            urls = self._nodes[urls[0]]
        folder = self._folder / "state"
        with (
            patch("moot.offchain.chain.endpoints.open_transport", self._nodes.__getitem__),
            patch("moot.offchain.chain.codec.Codec", lambda _: self._codec),
            open_chain(urls, signers, policy, chain_id=CHAIN_ID, folder=folder) as chain,
        ):
            yield chain

    def _make_context(self, chain: OwnChain, address: Address) -> PartyContext:
        contract = Contract(chain, REFEREE, self._codec, None)  # type: ignore[arg-type] # alike
        sight = PolledReferee(chain, contract, ORDERED, address)
        sight._reader = Reader()  # type: ignore[assignment] # alike
        sight.look_first(len(self._nodes))
        return PartyContext(self.settings, chain, sight, address, self._tell)
