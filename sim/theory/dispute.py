"""The costs of a dispute of Moot, in the terms in which other protocols state theirs.

The gas of either side is from the receipts of the reference dispute, played on the contract. What a
call costs at most is from the committed snapshot.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from moot.contracts.model.types import MIN_BOND_WEI
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.crowds import SIDE_MOVES
from moot.offchain.errors import UsageError
from moot.sim.gas.play import Stage
from moot.sim.gas.scenarios import REFERENCE
from moot.sim.gas.snapshot import Line
from moot.sim.theory.bold import Level

BOND_WEI = MIN_BOND_WEI
"""The least bond of a job."""
MATCH_MOVES = 2 * SIDE_MOVES - 1
"""The most moves that a match can have (`docs/explanation/protocol.md`)."""
LARGEST_LEAF_GAS = 1_130_200
"""The gas of the leaf with the most legal evidence, measured (`docs/explanation/security.md`)."""


@dataclass(frozen=True, slots=True)
class SideGas:
    """The gas of the two sides of a dispute.

    Attributes:
        honest: of the honest side, which also begins the match and settles the job.
        liar: of the other.
    """

    honest: int
    liar: int

    @property
    def total(self) -> int:
        """The gas of both."""
        return self.honest + self.liar

    @property
    def level(self) -> Level:
        """The dispute as one level of BoLD's: what the liar spends is what both do."""
        return Level(shared_gas=self.liar, honest_gas=self.honest - self.liar)


def divide_gas(played: Iterable[Played]) -> SideGas:
    """Return what the sides of a game have spent, without what opening the job cost.

    Whatever the client does after that, the honest side pays for.

    Raises:
        ValueError: no chain has charged for a call.
    """
    gas = {True: 0, False: 0}
    for move in played:
        if move.receipt is None:
            raise ValueError(f"no chain has charged for {move.call}")
        if move.call != "open_job":
            gas[not move.player.startswith("liar")] += move.receipt.gas_used
    return SideGas(honest=gas[True], liar=gas[False])


def measure_reference() -> SideGas:
    """Return what the sides of the reference dispute spend, from its receipts."""
    return divide_gas(Stage().measure(REFERENCE).played)


def bound_gas(lines: Iterable[Line], scenario: str = REFERENCE.name) -> tuple[int, int]:
    """Return the least and the most gas that a scenario's calls add up to, by a snapshot.

    A snapshot has a count, a minimum and a maximum for each call. The opening of the job, which the
    client pays whether anybody disagrees or not, is left out.

    Raises:
        UsageError: the snapshot has no such scenario.
    """
    own = _select(lines, scenario, lambda line: not line.call.endswith(".open_job"))
    least, most = (
        sum(line.count * getattr(line, name) for line in own) for name in ("minimum", "maximum")
    )
    return least, most


def bound_longest_gas(lines: Iterable[Line]) -> int:
    """Return the gas of the longest legal match, both sides together.

    It has the most moves that there can be, each of which costs what those of the reference dispute
    cost at most, on average, and the dearest leaf.

    Raises:
        UsageError: the snapshot has no reference dispute.
    """
    stages = ("history", "trace", "tensor", "fold")
    moves = _select(
        lines,
        REFERENCE.name,
        lambda line: line.call.startswith(stages) and not line.call.endswith(".start_match"),
    )
    mean = fmean([line.maximum for line in moves], weights=[line.count for line in moves])
    return round(MATCH_MOVES * mean) + LARGEST_LEAF_GAS


def _select(
    lines: Iterable[Line], scenario: str, is_wanted: Callable[[Line], bool]
) -> Sequence[Line]:
    own = [line for line in lines if line.scenario == scenario and is_wanted(line)]
    if not own:
        raise UsageError(f"the snapshot has no scenario {scenario!r}; measure it first")
    return own
