"""The proven method between two processes on unlike hardware, counted step by step.

The trainer computes by stock binary64 operators and logs what their proven bound leaves in doubt;
the auditor computes by its own, and takes the log's directions where the band allows them.
"""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.logged.band import LOGGED_WITHIN, REACH
from moot.offchain.errors import WrongLog
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import Recipe
from moot.offchain.native.binary64.current import set_engine
from moot.offchain.native.binary64.trial import try_engine
from moot.offchain.programs.graph import Kind, Node, Program
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.rounding.entries import HEADER_BYTES, decode_log, encode_log
from moot.offchain.programs.rounding.journals import Reading, Writing
from moot.offchain.programs.rounding.meaning import is_loggable
from moot.offchain.replication.compare import Setting, Step
from moot.offchain.replication.logs import compare_by_log, name_log
from moot.offchain.replication.orders import Answer, Method, Order, choose_start
from moot.offchain.replication.outcome import Outcome, count, get_share
from moot.offchain.replication.profiles import ALL_PROFILES, Profile
from moot.offchain.replication.sums import ProfileEngine
from moot.offchain.replication.timing import make_stock

METHOD = "proven"
"""The method's name in an order."""

_ROUNDING = frozenset(
    {Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.FMA, Function.SQRT}
)


@dataclass(frozen=True, slots=True)
class Part:
    """What a party does.

    Attributes:
        folder: where the trainer writes its logs, and the auditor reads them.
        writes: whether it is the trainer.
    """

    folder: str
    writes: bool


def train(recipe: Recipe, order: Order) -> Iterator[Answer]:
    """Yield the start, and the state after each step.

    Raises:
        WrongLog: the trainer's log is none of this step, or turns what the band does not cover.
    """
    assert order.method is not None
    part = Part(**order.method.options)
    captured = capture(recipe, trust=True, arithmetic=LOGGED)
    program = captured.program
    names = [slot.name for slot in program.state]
    start = choose_start(order, dict(zip(names, captured.initial_state, strict=True)))
    yield Answer(start)
    stock = make_stock(recipe, start, order) if order.timed else {}
    profile = ALL_PROFILES[order.profile]
    engine = ProfileEngine(profile)
    try_engine(profile.name, engine)
    set_engine(engine)
    executor = Executor(program, profile.threads, profile.backend)
    root = ProgramTree(program).header.root
    state = list(start.values())
    for step in itertools.count():
        seconds = {name: run.time(step) for name, run in stock.items()}
        begin = perf_counter()
        path = name_log(Path(part.folder), step)
        journal = _write(step) if part.writes else _read(path, program, root, step)
        executor.advance(state, captured.batch(step), step, journal=journal)
        if isinstance(journal, Writing):
            path.write_bytes(encode_log(journal.log, root, step))
        else:
            check(journal, program, step)
        report = _report(journal, program) | {"seconds": perf_counter() - begin} | seconds
        yield Answer(dict(zip(names, state, strict=True)), report)


def check(journal: Reading, program: Program, step: int) -> None:
    """Refuse a log with entries that the band does not allow, naming the first (`WrongLog`)."""
    if journal.void:
        operator, element = journal.void[0]
        raise WrongLog(
            f"{len(journal.void)} of its entries are outside the band, the first for element "
            f"{element} of operator {program.names[operator]} ({program.lines[operator]})",
            step,
        )


def _write(step: int) -> Writing:
    """Return a trainer's journal, which counts all that is steerable in the first step only."""
    return Writing(reach=LOGGED_WITHIN if step else REACH)


def _read(path: Path, program: Program, root: bytes, step: int) -> Reading:
    return Reading(decode_log(path.read_bytes(), program, root, step))


def _report(journal: Writing | Reading, program: Program) -> dict[str, Any]:
    report = {
        "rounded": count_rounded(program),
        "loggable": sum(node.elements for node in program.nodes if is_loggable(node)),
        "entries": journal.log.count,
        "settled": journal.settled,
    }
    if isinstance(journal, Writing):
        return report | {"steerable": journal.steerable if journal.reach == REACH else None}
    return report | {"corrections": journal.corrections}


def count_rounded(program: Program) -> int:
    """Return how many elements of a step are rounded to binary32."""
    return sum(node.elements for node in program.nodes if _is_rounding(node))


def _is_rounding(node: Node) -> bool:
    if node.dtype is not DType.FLOAT32:
        return False
    if node.kind is Kind.MAP and node.function is Function.CONVERT:
        return node.operands[0].dtype in {DType.INT32, DType.INT64}
    is_computed = node.kind is Kind.MAP or node.kind.folds
    return is_computed and (node.function in _ROUNDING or node.function.is_transcendental)


@dataclass(frozen=True, slots=True)
class Counts(Outcome):
    """What a trainer's and an auditor's steps come to.

    Attributes:
        entries_per_step: entries in a step's log.
        steerable_share_of_loggable: the share of the results of operators that may have entries
            that a trainer could turn. It and `steerable_share` are of the first step.
        settled_share: the share of all roundings that is decided exactly.
    """

    entries_per_step: float
    steerable_share_of_loggable: float
    settled_share: float


def make_method(folder: Path, *, writes: bool) -> Method:
    """Return the method by which a worker does a party's part."""
    return Method(METHOD, asdict(Part(str(folder), writes)))


def replicate(setting: Setting, trainer: Profile, auditor: Profile) -> Iterator[Step]:
    """Let a trainer log its steps under one profile, and an auditor audit them under another.

    `summarize` makes the counts of what this yields after every step. The arithmetic is `logged`,
    whatever the setting says.

    Raises:
        ReplicationError: a process fails; its message says why, for example that a log is refused.
    """
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        folder = Path(directory)
        methods = [make_method(folder, writes=writes) for writes in (True, False)]
        yield from compare_by_log(setting, (trainer, auditor), methods, folder, HEADER_BYTES)


def summarize(steps: Sequence[Step]) -> Counts:
    """Return the counts of one step or more."""
    first, corrections = steps[0].trainer, sum(step.auditor["corrections"] for step in steps)
    return Counts(
        **asdict(count(steps, corrections, get_share(first["steerable"], first["rounded"]))),
        entries_per_step=sum(step.trainer["entries"] for step in steps) / len(steps),
        steerable_share_of_loggable=get_share(first["steerable"], first["loggable"]),
        settled_share=get_share(
            sum(step.trainer["settled"] for step in steps), first["rounded"] * len(steps)
        ),
    )
