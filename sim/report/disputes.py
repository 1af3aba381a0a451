"""Measured disputes: what one costs, by how much a move opens and by how large the program is.

`python -m moot.sim.report.disputes` plays them on the chain in memory, each to its end, and writes
the gas of their receipts into `disputes.json` beside this file; a test plays them again.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moot.contracts.compiler import EVM_VERSION
from moot.offchain.commitments.tree import MAX_ARITY_LOG2
from moot.sim.gas.play import Stage
from moot.sim.gas.report import make_object
from moot.sim.gas.scenarios import LARGE, SMALL, Scenario, place_lie
from moot.sim.synthetic.products import Size
from moot.sim.writing import write_whole

FILE = Path(__file__).with_name("disputes.json")
SIZES = (
    SMALL,
    Size(checkpoints=1 << 10, operators=1 << 8, rows=1 << 5, columns=1 << 5, terms=1 << 6),
    Size(checkpoints=1 << 15, operators=1 << 10, rows=1 << 7, columns=1 << 8, terms=1 << 9),
    LARGE,
)
"""The sizes of the synthetic jobs: their places have 19, 34, 49 and 64 bits."""
ARITIES_LOG2 = tuple(range(1, MAX_ARITY_LOG2 + 1))


@dataclass(frozen=True, slots=True)
class Dispute:
    """The gas of a dispute over one scalar operation, from joining to payout, of both sides.

    Attributes:
        arity: how many nodes of a tree a move opens at most.
        bits: of the place of the scalar operation: checkpoint, operator, element and term.
        calls: how many there are.
        gas: of all of them.
        about: the size of the job, in words.
    """

    arity: int
    bits: int
    calls: int
    gas: int
    about: str


def measure(arities_log2: Sequence[int] = ARITIES_LOG2) -> list[Dispute]:
    """Play a dispute of every size on a referee of every arity, and return what they cost."""
    stage = Stage()
    found = []
    for arity_log2 in arities_log2:
        for size in SIZES:
            lies = (place_lie(size),)
            scenario = replace(_BASE, size=size, lies=lies, arity_log2=arity_log2)
            entry = make_object(stage.measure(scenario))
            calls = sum(row["moves"] for row in entry["calls"])
            about = describe(size)
            bits, gas = entry["halvings"], entry["total_gas"]
            found.append(Dispute(1 << arity_log2, bits, calls, gas, about))
    return found


_BASE = Scenario("size", "a dispute of some size")


def describe(size: Size) -> str:
    """Return a size in words."""
    parts = {
        "checkpoints": size.checkpoints,
        "operators": size.operators,
        "elements": size.rows * size.columns,
        "terms": size.terms,
    }
    return ", ".join(f"2^{count.bit_length() - 1} {name}" for name, count in parts.items())


def make_document(disputes: Sequence[Dispute]) -> dict[str, Any]:
    """Return measured disputes with what they were measured on."""
    return {
        "fork": EVM_VERSION,
        "vyper": version("vyper"),
        "py-evm": version("py-evm"),
        "disputes": [asdict(dispute) for dispute in disputes],
    }


def read() -> tuple[dict[str, str], list[Dispute]]:
    """Return what the disputes that we come with were measured on, and the disputes."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    disputes = [Dispute(**entry) for entry in document.pop("disputes")]
    return document, disputes


if __name__ == "__main__":
    write_whole(FILE, json.dumps(make_document(measure()), indent=1) + "\n")
