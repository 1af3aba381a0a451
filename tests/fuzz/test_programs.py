"""Drawn programs in the executor, by the definition, on the contract and in matches."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from moot.contracts.compiler import CACHE_VARIABLE, cache_dir
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning import accesses, gathers
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, Slot
from moot.offchain.programs.legality import check_program
from moot.offchain.providers.behaviour import Behaviour, Patch
from tests.fuzz import failures
from tests.fuzz.batches import MATRIX_EVERY, Order, run
from tests.fuzz.compare import DifferenceError, Mode, check, define
from tests.fuzz.draws import Case, draw_case
from tests.fuzz.leaves import list_winners, running
from tests.fuzz.shrinking import make_program, shrink
from tests.fuzz.trial import fails, replay
from tests.quick import every

PARTS, PART = 4, 50
FOUND = sorted(Path(__file__).with_name("found").glob("*.json"))
MODE = Mode(threads=1, is_fused=False, is_least=False)
F32, I64 = DType.FLOAT32, DType.INT64


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Keep the kernels of drawn programs out of the user's cache, and find the contracts there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(cache_dir()))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("part", every(8, range(PARTS)))
def test_drawn_programs_are_what_they_are_defined_to_be(part: int, tmp_path: Path) -> None:
    """One by one, fused, advancing, in part, on any threads: all is the definition's, bit for bit.

    Leaves of some are shown by an honest run, and computed alike by model and bytecode; of some,
    a match about one wrong bit is played, and the truth wins.
    """
    numbers = {"first": 1 + part * PART, "stop": 1 + (part + 1) * PART}
    order = Order(2026, **numbers, leaves_every=PART, matches_every=12, directory=str(tmp_path))
    tally = run(order)
    assert not tally.failures
    assert tally.programs == PART
    assert tally.fused >= PART // MATRIX_EVERY
    assert tally.leaves > 0


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    """Cases in which a part of the executor once differed from the definition agree now."""
    assert replay(path) is None


def test_draws_are_legal_and_of_all_kinds() -> None:
    """Every drawn program is legal; all kinds, types, ranks and nearly all functions are drawn."""
    kinds, functions, types, ranks, empty = set(), set(), set(), set(), False
    for number in range(400):
        program = draw_case(Random(number), is_matrix=number % 7 == 0).program
        check_program(program)
        kinds |= {node.kind for node in program.nodes}
        functions |= {node.function for node in program.nodes}
        types |= {node.dtype for node in program.nodes}
        ranks |= {len(node.shape) for node in program.nodes}
        empty |= any(node.elements == 0 for node in program.nodes)
    assert (kinds, types) == (set(Kind), set(DType))
    assert {f for f in set(Function) - functions if not f.is_transcendental} == set()
    assert len(functions) > len(Function) - 5
    assert ranks == set(range(9))
    assert empty


def make_divided(row: Row) -> Case:
    """Return a case with a gather of rows, of which one has a divisor that cancels."""
    first = Node(Kind.MAP, Function.NEG, F32, (4, 5), (_read(Origin.STATE, (4, 5)),))
    indices = Operand(Origin.BATCH, I64, 0, 0, (Row(3, 0, ((1, 1),)),))
    data = Operand(Origin.NODE, F32, 0, 0, (row, Row(5, 0, ((2, 1),))))
    gather = Node(Kind.GATHER, Function.COPY, F32, (4, 3), (data, indices))
    sink = Node(Kind.SINK, Function.COPY, F32, (4, 5), (_read(Origin.NODE, (4, 3), 1),))
    program = make_program([Slot("w", F32, (4, 5))], [Slot("i", I64, (3,))], [first, gather, sink])
    state: list[Array] = [np.arange(20, dtype=np.float32).reshape(4, 5)]
    return Case(program, state, [np.array([4, 0, 2])], 0)


def _read(origin: Origin, shape: Sequence[int], reference: int = 0) -> Operand:
    rows = tuple(Row(size, 0, ((axis, 1),)) for axis, size in enumerate(shape))
    return Operand(origin, F32, reference, 0, rows)


class ByDefinition(Behaviour):
    """An accomplice of the client that computes by the letter of the definition."""

    name = "by-definition"

    def __init__(self, case: Case) -> None:
        self._case = case

    def patch(self, step: int, state: Sequence[Array]) -> Patch:
        """Put the defined outputs in the place of the executor's."""
        outputs = define(self._case._replace(state=list(state), step=step))
        return {index: lambda _, output=output: output for index, output in enumerate(outputs)}


def test_accomplice_who_reads_by_the_letter_wins_nothing() -> None:
    """A client's program file cannot make an honest executor differ from what leaves compute."""
    case = make_divided(Row(4, 0, ((0, 2),), 2))
    check_program(case.program)
    with running(case, Behaviour()) as honest, running(case, ByDefinition(case)) as accomplice:
        assert list_winners(honest, accomplice) == ["first", "second"]
        assert honest.history_root == accomplice.history_root


def test_failures_are_kept_reduced_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken executor is found out; what is kept fails as long as it is broken, and no longer."""

    def ignore_divisors(rows: Sequence[Row], sizes: accesses.Sizes) -> accesses.Strided:
        return accesses._flatten(rows, len(sizes))

    case = make_divided(Row(4, 0, ((0, 6),), 6))
    with monkeypatch.context() as broken:
        broken.setattr(gathers, "find_strided", ignore_divisors)
        broken.setattr(gathers, "is_inside", lambda *_: True)
        with pytest.raises(DifferenceError, match="one by one: operator 1"):
            check(case, define(case), MODE, Random(0))
        smaller = shrink(case, lambda other: fails(other, MODE))
        assert [node.kind for node in smaller.program.nodes] == [Kind.GATHER, Kind.SINK]
        path = tmp_path / "case.json"
        failures.write(path, smaller, MODE, {"difference": ""})
        kept, mode = failures.read(path)
        assert (kept.program, kept.step, mode) == (smaller.program, smaller.step, MODE)
        assert "one by one: operator 0" in str(replay(path))
    assert replay(path) is None


def test_shrinking_comes_to_an_end() -> None:
    """What always fails is reduced to two operators without terms, on tensors of zeros."""
    for number in range(3):
        case = shrink(draw_case(Random(number), is_matrix=False), lambda _: True)
        check_program(case.program)
        assert len(case.program.nodes) == 2
        assert not any(array.any() for array in (*case.state, *case.batch))
        assert all(o.origin is Origin.IMMEDIATE for n in case.program.nodes for o in n.operands)
