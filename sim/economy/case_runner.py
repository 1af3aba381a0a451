"""The runner of cases: real programs, real runs, on the model or on a chain."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import moot.sim
from moot.contracts.compiler import compile_contract
from moot.contracts.model.types import Address
from moot.contracts.model.words import hash_top
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import find_arithmetic, name_deciding
from moot.offchain.backends.table import DEFAULT, describe_backend
from moot.offchain.disputes.evidence.rulings import rule_for
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.port import ModelReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import UsageError
from moot.offchain.programs.catalogue import NAMES as EXAMPLES
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.task import Task
from moot.sim.checked_referee import CheckedReferee
from moot.sim.economy.cases import Case, Lineup, name_lineup
from moot.sim.economy.casting import STAKES, Cast, Party, check_conducts, take_stretch
from moot.sim.economy.chain_rules import ChainRule
from moot.sim.economy.config import IN_PROCESS, Program
from moot.sim.economy.congested import Closed, Congested
from moot.sim.economy.gas import GasTable, Kind, measure
from moot.sim.economy.gas_tables import find_shipped, read_table
from moot.sim.economy.played_case import PlayedCase, Recorder, play_case
from moot.sim.economy.receipts import read_receipts
from moot.sim.economy.shelf import Shelf
from moot.sim.economy.strategies.base import HONEST
from moot.sim.strategies import STRATEGIES, find_conduct

if TYPE_CHECKING:
    from moot.offchain.disputes.referee.on_chain import ChainReferee

Progress = Callable[[str, int, int], None]
"""Is called during long work: its name, how much is done, and how much there is."""


_DECIDING = (
    *("cases.py", "casting.py", "case_runner.py", "gas.py", "gas_tables.json", "played_case.py"),
    *("congested.py", "receipts.py", "streams.py"),
)
"""The files of this package on which it depends what a case comes to."""


_FREE = ("trust_capture", "backend")
"""Keys of a program on which no game depends."""

_RARE = ("data", "precision", "inference")
"""Keys of a program that are named in the description of a game only where they are set."""


@dataclass
class CaseRunner:
    """The runner of the cases of one program.

    Attributes:
        program: what every case is about.
        chain: `tester`, or the URL of a node.
        rule: what a call costs where cases are modelled; what was measured, if there is none.
        progress: is told what takes long.
    """

    program: Program
    chain: str = IN_PROCESS
    rule: ChainRule | None = None
    progress: Progress = lambda *_: None

    def __post_init__(self) -> None:
        if not self.arithmetic.ends_on_chain:
            raise UsageError(
                f"disputes of a market end at a scalar operation, and no contract computes those "
                f"of `{self.arithmetic.name}`; choose {name_deciding()}"
            )
        if self.program.backend != DEFAULT:
            describe_backend(self.program.backend, self.arithmetic)  # refuses what is not here

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the program."""
        return find_arithmetic(self.program.arithmetic)

    @cached_property
    def task(self) -> Task:
        """What is agreed in case 0."""
        program = self.program
        return make_task(
            Setting(
                program=program.name,
                size=program.size,
                steps=program.steps,
                checkpoint_every=program.checkpoint_every,
                arithmetic=program.arithmetic,
                backend=program.backend,
                data=Path(program.data) if program.data else None,
                precision=program.precision,
                inference=program.inference,
                trust_capture=program.trust_capture,
            )
        )

    @cached_property
    def shelf(self) -> Shelf:
        """Where cases of this program are kept."""
        about = {"torch": version("torch"), "code": _digest_code()}
        if self.rule is not None:
            about |= {"chain": repr(self.rule)}
        return Shelf(self.describe_game() | about)

    @cached_property
    def gas(self) -> GasTable:
        """The gas of calls: as it came with us, as it was kept, or measured and kept now."""
        about = self.describe_game()
        table = find_shipped(about)
        if table is None:
            shelf = Shelf({"gas of": about})
            table = read_table(shelf.read("gas.json"))
            if table is None:
                table = self.measure_gas()
                shelf.write("gas.json", msgspec.json.encode(table).decode())
        return table

    def measure_gas(self) -> GasTable:
        """Return the gas of calls in games of every conduct with itself and with honest ones."""
        several = [
            lineup
            for conduct in STRATEGIES
            for lineup in ((conduct, conduct), (conduct, HONEST), (conduct, HONEST, HONEST))
        ]
        lineups: list[Lineup] = [(HONEST,), *several]
        calls: list[tuple[Kind, int]] = []
        for done, lineup in enumerate(lineups):
            self.progress("games that measure gas", done, len(lineups))
            played = self._play(lineup, 0)
            calls += zip(played.recorder.kinds, played.read_gas(), strict=True)
        return measure(calls)

    def describe_game(self) -> dict[str, Any]:
        """Return what the gas of calls depends on, as plain values."""
        program, arithmetic = self.program, self.arithmetic
        is_known = program.name in EXAMPLES and not program.data
        return {
            "program": _describe_program(program),
            "root": None if is_known else self._describe_task(),
            "arithmetic": f"{arithmetic.name} {arithmetic.version}",
            "stakes": asdict(STAKES),
            "conducts": list(STRATEGIES),
            "contracts": compile_contract("referee", arithmetic=arithmetic.contracts).source_digest,
        }

    def _describe_task(self) -> str:
        """Return the digests of all that is agreed about a user's program.

        An example is known by its name and by our code; it need not be captured to be known.
        """
        task = self.task
        roots = (task.commitment.header.root, task.start_root, task.data_root)
        return " ".join(root.hex() for root in roots)

    def model(self, lineup: Lineup, number: int, closed: Closed = ()) -> Case:
        """Play a case on the model of the referee, with the gas of the table.

        Args:
            lineup: the conducts of all who take part.
            number: which of the lineup's cases.
            closed: when no call gets into a block.
        """
        table = self.gas
        accounts = [f"0x{index + 1:040x}" for index in range(count_accounts(lineup))]
        referee = ModelReferee(dict.fromkeys(accounts, 10**24), arithmetic=self.arithmetic)
        checked = CheckedReferee(referee, "")
        played = self.run_case(checked, accounts, lineup, number, closed=closed)
        kinds, rule = played.recorder.kinds, self.rule
        gases = [table.estimate(kind) for kind in kinds]
        if rule is not None:
            gases = [rule.convert(kind, gas) for kind, gas in zip(kinds, gases, strict=True)]
        return played.judge(gases)

    def play(
        self, lineup: Lineup, number: int, stakes: Stakes = STAKES, closed: Closed = ()
    ) -> Case:
        """Play a case on a chain, with its receipts; the arguments are those of `run_case`.

        Raises:
            UsageError: the chain has too few accounts.
            ChainError: the chain fails.
            BrokenInvariantError: the referee has done what it must never do.
        """
        played = self._play(lineup, number, stakes, closed)
        case = played.judge(played.read_gas())
        return replace(case, receipts=read_receipts(played, case))

    def check(self, conducts: Iterable[str]) -> None:
        """Raise UsageError if one of these conducts is impossible with the program."""
        check_conducts(conducts, self.task)

    def forget(self, number: int) -> None:
        """Take away what was run in a case that nobody plays again."""
        self._cast.forget(number)

    def leave_chain(self) -> None:
        """Play the next case on a new contract, of a new chain if it is one of this process."""
        for name in ("_referee", "_checked"):
            self.__dict__.pop(name, None)

    def _play(
        self, lineup: Lineup, number: int, stakes: Stakes = STAKES, closed: Closed = ()
    ) -> PlayedCase:
        accounts = self._referee.accounts
        needed = count_accounts(lineup)
        if len(accounts) < needed:
            raise UsageError(
                f"the chain has {len(accounts)} accounts, and a job of {name_lineup(lineup)} needs "
                f"{needed} with its client and a verifier; lower `seats`, or use another chain"
            )
        return self.run_case(self._checked, accounts, lineup, number, stakes, closed)

    @cached_property
    def _referee(self) -> "ChainReferee":
        from moot.offchain.disputes.referee.on_chain import deploy  # noqa: PLC0415 - imports the chain

        return deploy(self.chain, self.arithmetic)

    @cached_property
    def _checked(self) -> CheckedReferee:
        return CheckedReferee(self._referee, "")

    @cached_property
    def _cast(self) -> Cast:
        return Cast(self.task, self.program.backend)

    def run_case(
        self,
        checked: CheckedReferee,
        accounts: Sequence[Address],
        lineup: Lineup,
        number: int,
        stakes: Stakes = STAKES,
        closed: Closed = (),
    ) -> PlayedCase:
        """Play a case to its end.

        Accounts are given away in the order of their addresses, on which it depends who of two
        moves first: a case ends the same whatever the addresses are.

        Args:
            checked: the referee, on which all jobs before have come to their ends.
            accounts: enough for the lineup; see `count_accounts`.
            lineup: the conducts of all who take part.
            number: which of the lineup's cases it is.
            stakes: money and clocks.
            closed: when no call gets into a block; nobody is sure to be in time then.

        Raises:
            BrokenInvariantError: the referee has done what it must never do.
        """
        checked.label = f"case {number} of {name_lineup(lineup)}"
        recorder = Recorder(checked, len(checked.store.jobs))
        client, verifier, *others = sorted(accounts, key=lambda address: int(address, 16))
        parties = self._seat(lineup, number, iter(others))
        shills = [party.players[0].address for party in parties if party.is_client]
        honest = [p.address for party in parties if party.is_honest for p in party.players]
        checked.watcher.honest[recorder.job_id] = frozenset(() if closed else honest)
        game = Game(
            referee=Congested(recorder, closed) if closed else recorder,
            task=take_stretch(self.task, number),
            client=(shills or [client])[0],
            players=[p for party in parties if party.trick is None for p in party.players],
            stakes=stakes,
            verifier=verifier,
            ruler=rule_for,
            watchers=[party.trick for party in parties if party.trick is not None],
            seed=number,
        )
        answer = hash_top(self._cast.run(Behaviour(), number).history.top)
        return play_case(game, parties, recorder, answer, checked.label)

    def _seat(self, lineup: Lineup, number: int, free: Iterator[Address]) -> list[Party]:
        """Return who takes part in a case; of those who would open the job the first does so."""
        places, parties = Counter[str](), list[Party]()
        for conduct in lineup:
            party = self._cast.seat(conduct, places[conduct], number, free)
            is_open = any(other.is_client for other in parties)
            parties.append(replace(party, is_client=party.is_client and not is_open))
            places[conduct] += 1
        return parties


def count_accounts(lineup: Lineup) -> int:
    """Return how many accounts a lineup needs, with those of the client and the verifier."""
    return 2 + sum(find_conduct(conduct).accounts for conduct in lineup)


def _describe_program(program: Program) -> dict[str, Any]:
    """Return the keys of a program on which its games depend; of `_RARE` those that are set."""
    told: dict[str, Any] = msgspec.to_builtins(program)
    usual = Program()
    return {
        name: value
        for name, value in told.items()
        if name not in _FREE and (name not in _RARE or value != getattr(usual, name))
    }


def _digest_code() -> str:
    """Return the digest of all our code that a case depends on."""
    root = Path(moot.sim.__file__).parents[1]
    places = [*root.glob("contracts/**/*.py"), *root.glob("offchain/**/*.py")]
    places += [*root.glob("sim/*.py"), *root.glob("sim/tricks/*.py")]
    places += [root / "sim" / "economy" / name for name in _DECIDING]
    digest = hashlib.sha256()
    for place in sorted(places):
        digest.update(place.read_bytes())
    return digest.hexdigest()
