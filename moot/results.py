"""The results of a dispute: frozen, typed, and plain values on demand."""

from dataclasses import asdict, dataclass
from typing import Any

from moot.display import Displayable
from moot.offchain.disputes.play.locate import Scalar

__all__ = ["Gas", "Ledger", "Located", "Move", "Operator", "Scalar", "Verdict"]


@dataclass(frozen=True, slots=True)
class Operator(Displayable):
    """An operator of a program.

    Attributes:
        index: its place among the program's operators, from 0.
        name: such as `mm_17`.
        kind: such as `contract`.
        line: of the user's file from which it comes; empty where that is not known.

    Example:
        >>> import moot
        >>> moot.Operator(3, "mm_3", "contract", "model.py:7").to_dict()
        {'index': 3, 'name': 'mm_3', 'kind': 'contract'}
    """

    index: int
    name: str
    kind: str
    line: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot dispute --json` prints."""
        return {"index": self.index, "name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class Located(Displayable):
    """The place at which a lie was found; what the dispute did not come down to is None.

    Attributes:
        step: counted from 0.
        operator: of the step's program.
        element: the index in the operator's output, in row-major order.
        fold_index: the step of a fold that was wrong.
        scalar: the one scalar operation.

    Example:
        >>> import moot
        >>> moot.Located(step=11).to_dict()["step"]
        11
    """

    step: int | None = None
    operator: Operator | None = None
    element: int | None = None
    fold_index: int | None = None
    scalar: Scalar | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; operands and results are bit patterns in hexadecimal."""
        return {
            "step": self.step,
            "operator": None if self.operator is None else self.operator.to_dict(),
            "element": self.element,
            "fold_index": self.fold_index,
            "scalar": None if self.scalar is None else self.scalar.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Verdict(Displayable):
    """The end of a dispute.

    Attributes:
        winner: the first of those whose claim was left; None where there is none.
        losers: who has lost a match, in order.
        reason: how the last match ended, such as `leaf` or `timeout`; `agreement` without matches.
        located: what was found about a liar.
        honest_won: whether an honest provider's claim was left.

    Example:
        >>> import moot
        >>> verdict = moot.Verdict("honest-1", ("lazy-1",), "timeout", moot.Located(), True)
        >>> verdict.to_dict()
        {'winner': 'honest-1', 'losers': ['lazy-1'], 'reason': 'timeout'}
    """

    winner: str | None
    losers: tuple[str, ...]
    reason: str
    located: Located
    honest_won: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot dispute --json` prints."""
        return {"winner": self.winner, "losers": list(self.losers), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Move(Displayable):
    """A transaction of a dispute.

    Attributes:
        phase: the stage of the dispute, such as `joining`, `trace` or `leaf`.
        player: who made it.
        call: of the referee's functions.
        gas_used: gas that was paid for.
        calldata_bytes: bytes.
        gas_calldata: gas of the calldata.
        gas_execution: gas of what was computed.
        block: the number of the block.
        transaction: the hash, in hexadecimal.

    Example:
        >>> import moot
        >>> move = moot.Move("leaf", "honest-1", "leaf", 170000, 1500, 20000, 129000, 9, "0x12")
        >>> move.to_dict()["gas_used"]
        170000
    """

    phase: str
    player: str
    call: str
    gas_used: int
    calldata_bytes: int
    gas_calldata: int
    gas_execution: int
    block: int
    transaction: str

    def to_dict(self) -> dict[str, Any]:
        """Return all values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Gas(Displayable):
    """The gas of a dispute.

    Attributes:
        total: of all transactions, in gas.
        by_stage: of each stage, in the order of a game.

    Example:
        >>> import moot
        >>> moot.Gas({"joining": 5, "leaf": 2}).total
        7
    """

    by_stage: dict[str, int]

    @property
    def total(self) -> int:
        """The gas of all transactions."""
        return sum(self.by_stage.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot dispute --json` prints."""
        return {"total": self.total, "by_phase": self.by_stage}


@dataclass(frozen=True, slots=True)
class Ledger(Displayable):
    """The money of a dispute, in wei; changes, fees and what was burned add up to 0.

    Attributes:
        before: what each account had before the job was opened.
        after: what it had when the job was closed.
        burned: what the rules have burned.
        fees: what was paid for gas.

    Example:
        >>> import moot
        >>> moot.Ledger({"client": 9}, {"client": 7}, burned=1, fees=1).by_account
        {'client': -2}
    """

    before: dict[str, int]
    after: dict[str, int]
    burned: int
    fees: int

    @property
    def by_account(self) -> dict[str, int]:
        """The change of each account."""
        return {name: self.after[name] - before for name, before in self.before.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot dispute --json` prints."""
        return {
            "before": self.before,
            "after": self.after,
            "burned": self.burned,
            "fees": self.fees,
            "by_account": self.by_account,
        }
