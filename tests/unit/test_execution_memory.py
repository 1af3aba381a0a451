"""The memory of a run: live tensors, the order of operators, and refusals of runs too large."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import NotEnoughMemory
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.native import buffers, memory
from moot.offchain.native.memory import check_memory
from moot.offchain.planning.keeping import choose_kept
from moot.offchain.planning.memory import estimate_peak, list_live_bytes
from moot.offchain.planning.order import find_last_reads, reorder
from moot.offchain.planning.schedule import schedule
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot

SIZE = 8
BYTES = 4 * SIZE


@cache
def captured_example(name: str) -> Captured:
    """Return an example's tiny program."""
    return capture(build(name), trust=True)  # about memory


def read(origin: Origin, reference: int) -> Operand:
    """Return an access to a whole vector."""
    return Operand(origin, DType.FLOAT32, reference, rows=(Row(SIZE, terms=((0, 1),)),))


def make_node(kind: Kind, *operands: Operand) -> Node:
    """Return an operator on vectors."""
    function = Function.ADD if kind is Kind.MAP else Function.COPY
    return Node(kind, function, DType.FLOAT32, (SIZE,), operands)


def make_program(nodes: Sequence[Node], slots: int, final: Sequence[Operand]) -> Program:
    """Return a program whose next state is given by these operands."""
    state = tuple(Slot(f"slot{i}", DType.FLOAT32, (SIZE,)) for i in range(slots))
    everything = (*nodes, *(make_node(Kind.SINK, operand) for operand in final))
    names = tuple(f"node{i}" for i in range(len(everything)))
    return Program(state, (), everything, names, ("",) * len(everything))


def chain(length: int) -> Program:
    """Return maps of which each reads the one before, and a state of the last."""
    sources = [read(Origin.STATE, 0), *(read(Origin.NODE, i) for i in range(length - 1))]
    maps = [make_node(Kind.MAP, source, source) for source in sources]
    return make_program(maps, 1, [read(Origin.NODE, length - 1)])


def updates(count: int) -> Program:
    """Return gradients that read the whole state, and then the updates that read one each."""
    gradients = [
        make_node(Kind.MAP, read(Origin.STATE, i), read(Origin.STATE, i)) for i in range(count)
    ]
    steps = [make_node(Kind.MAP, read(Origin.STATE, i), read(Origin.NODE, i)) for i in range(count)]
    return make_program(
        [*gradients, *steps], count, [read(Origin.NODE, count + i) for i in range(count)]
    )


def peak_of(program: Program, order: Sequence[int], *, is_replaced: bool = False) -> int:
    """Return the estimate for operators that run one by one in some order."""
    sinks = range(program.first_sink, len(program.nodes))
    tasks = schedule(program, order, sinks)
    units = [task.members for task in tasks]
    slots = find_last_reads(program, units, sinks) if is_replaced else [()] * len(tasks)
    return estimate_peak(program, tasks, slots)


def test_a_chain_needs_two_tensors() -> None:
    """While an operator runs, what it reads and what it writes are alive; aliases cost nothing."""
    for length in (1, 2, 5):
        program = chain(length)
        assert peak_of(program, range(len(program.nodes))) == min(length, 2) * BYTES


def test_updates_run_as_soon_as_their_gradients_are_there() -> None:
    """Each update comes right after its gradient, so that one gradient is alive at a time."""
    count = 5
    program = updates(count)
    units = [[index] for index in range(len(program.nodes))]
    sinks = range(program.first_sink, len(program.nodes))
    order = reorder(program, units, sinks)
    assert sorted(order) == list(range(len(units)))
    for gradient in range(count):
        assert order.index(count + gradient) == order.index(gradient) + 1
    assert peak_of(program, order, is_replaced=True) == 2 * BYTES
    for is_replaced in (False, True):
        in_turn = peak_of(program, range(len(program.nodes)), is_replaced=is_replaced)
        assert in_turn == (count + 1) * BYTES
    slots = find_last_reads(program, [units[place] for place in order], sinks)
    dead = {units[place][0]: slots[step] for step, place in enumerate(order)}
    assert [dead[count + i] for i in range(count)] == [(i,) for i in range(count)]


def test_a_slot_that_stays_never_dies() -> None:
    """A tensor that is its own next state is read for the last time by nobody."""
    add = make_node(Kind.MAP, read(Origin.STATE, 0), read(Origin.STATE, 1))
    program = make_program([add], 2, [read(Origin.STATE, 0), read(Origin.NODE, 0)])
    sinks = range(program.first_sink, len(program.nodes))
    assert find_last_reads(program, [[0], [1], [2]], sinks) == [(1,), (), ()]


@given(st.data())
@settings(max_examples=50)
def test_an_order_is_one_that_can_run(data: st.DataObject) -> None:
    """Whatever the graph, every operator occurs once, after all that it reads."""
    nodes: list[Node] = []
    for index in range(data.draw(st.integers(1, 12))):
        choices = [read(Origin.STATE, 0), read(Origin.STATE, 1)]
        choices += [read(Origin.NODE, i) for i in range(index)]
        operands = [data.draw(st.sampled_from(choices)) for _ in range(2)]
        is_move = data.draw(st.booleans())
        nodes.append(make_node(Kind.MOVE if is_move else Kind.MAP, *operands[: 2 - is_move]))
    outputs = [read(Origin.NODE, i) for i in range(len(nodes))]
    final = [data.draw(st.sampled_from(outputs)) for _ in range(2)]
    program = make_program(nodes, 2, final)
    sinks = range(program.first_sink, len(program.nodes))
    order = reorder(program, [[index] for index in range(len(program.nodes))], sinks)
    assert sorted(order) == list(range(len(program.nodes)))
    for place, index in enumerate(order):
        assert set(program.nodes[index].inputs) <= set(order[:place])


@pytest.mark.parametrize("name", [pytest.param("gpt2", marks=pytest.mark.slow), "cnn"])
def test_advancing_is_running(name: str) -> None:
    """Steps in place leave the states of `run`, and no tensor that somebody holds is written to."""
    example = captured_example(name)
    executor = Executor(example.program)
    state: list[Array] = list(example.initial_state)
    held, wanted = list(state), list(state)
    copies = [array.copy() for array in held]
    for step in range(3):
        wanted = executor.run(wanted, example.batch(step), step)
        executor.advance(state, example.batch(step), step)
        assert len(state) == len(wanted)
        for a, b in zip(state, wanted, strict=True):
            assert a.tobytes() == b.tobytes()
    for array, copy in zip(held, copies, strict=True):
        assert array.tobytes() == copy.tobytes()


def test_too_little_memory_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that does not fit is refused with both numbers, and the state is as it was."""
    example = captured_example("mlp")
    executor = Executor(example.program)
    state: list[Array] = list(example.initial_state)
    monkeypatch.setattr(memory, "_NEGLIGIBLE_BYTES", 0)
    monkeypatch.setattr(buffers, "get_idle_bytes", lambda: 0)
    monkeypatch.setattr(memory, "get_available_bytes", lambda: 1_000)
    with pytest.raises(NotEnoughMemory, match="GB of memory") as refused:
        executor.advance(state, example.batch(0), 0)
    assert "\n" not in str(refused.value)
    assert refused.value.needed_bytes > 1_000 == refused.value.available_bytes
    assert len(state) == len(example.initial_state)
    monkeypatch.setattr(memory, "get_available_bytes", lambda: 1 << 40)
    executor.advance(state, example.batch(0), 0)


def test_the_least_of_all_limits_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system and the control group both limit what is left; neither has to be there."""
    system = tmp_path / "meminfo"
    system.write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    monkeypatch.setattr(memory, "_SYSTEM", system)
    monkeypatch.setattr(memory, "_OWN_GROUP", tmp_path)
    assert memory.get_available_bytes() == 2048 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    assert memory.get_available_bytes() == 1_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.get_available_bytes() == 2048 * 1024
    system.unlink()
    assert memory.get_available_bytes() is None
    check_memory(1 << 60)


def test_memory_that_waits_counts_as_available(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may use what an earlier one has left."""
    available, idle = 1 << 30, 1 << 29
    monkeypatch.setattr(memory, "get_available_bytes", lambda: available)
    monkeypatch.setattr(buffers, "get_idle_bytes", lambda: idle)
    check_memory(available + idle)
    with pytest.raises(NotEnoughMemory):
        check_memory(available + idle + 1)


def test_estimates_are_sane() -> None:
    """A captured step takes at least its next state, and at most all outputs together."""
    example = captured_example("gpt2")
    program = example.program
    sinks = range(program.first_sink, len(program.nodes))
    peak = peak_of(program, range(len(program.nodes)))
    outputs = sum(node.elements * node.dtype.width for node in program.nodes)
    assert sum(np.asarray(a).nbytes for a in example.initial_state) // 2 < peak < outputs
    units = [[index] for index in range(len(program.nodes))]
    in_turn = peak_of(program, range(len(program.nodes)), is_replaced=True)
    assert peak_of(program, reorder(program, units, sinks), is_replaced=True) <= in_turn <= peak


@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_what_is_kept_takes_no_more_than_the_run(name: str) -> None:
    """Outputs kept beyond their last reader leave the peak as it is; the costly ones are kept."""
    program = captured_example(name).program
    every = range(len(program.nodes))
    sinks = range(program.first_sink, len(program.nodes))
    tasks = schedule(program, every, sinks, shows_all=True)
    live = list_live_bytes(program, tasks, [()] * len(tasks))
    kept = choose_kept(program, tasks, max(live) // 2, live)
    longer = [task._replace(dead=tuple(i for i in task.dead if i not in kept)) for task in tasks]
    with_kept = list_live_bytes(program, longer, [()] * len(tasks))
    sizes = [program.nodes[i].elements * program.nodes[i].dtype.width for i in kept]
    assert kept
    assert max(with_kept) == max(live)
    assert sum(sizes) <= max(live) // 2
    assert with_kept[-1] == live[-1] + sum(sizes)
    assert all(program.nodes[i].kind.folds for i in kept)
    assert not choose_kept(program, tasks, 0, live)


def test_a_run_gives_what_it_keeps_to_who_asks() -> None:
    """What is kept are outputs as they were observed, and answers about others begin with them."""
    captured = captured_example("gpt2")
    executor, batch = Executor(captured.program), captured.batch(0)
    every: dict[int, Array] = {}
    kept: dict[int, Array] = {}
    executor.run(captured.initial_state, batch, 0, every.__setitem__, kept=kept)
    assert kept
    assert all(kept[index] is every[index] for index in kept)
    wanted = range(0, len(captured.program.nodes), 7)
    found = executor.outputs(captured.initial_state, batch, 0, wanted, known=kept)
    assert all(np.array_equal(found[i], every[i], equal_nan=True) for i in wanted)
    wrong = {index: output + 1 for index, output in kept.items()}
    other = executor.outputs(captured.initial_state, batch, 0, wanted, known=wrong)
    assert not all(np.array_equal(other[i], every[i], equal_nan=True) for i in wanted)


def test_memory_that_is_touched_waits_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is touched is there for a run; nothing is where memory is short, or enough is there."""
    size = 1 << 26
    buffers.release()
    monkeypatch.setattr(memory, "get_available_bytes", lambda: 2 * size - 1)
    with memory.touching(size):
        pass
    assert buffers.get_idle_bytes() < size
    monkeypatch.setattr(memory, "get_available_bytes", lambda: 2 * size)
    with memory.touching(size):
        held = buffers.empty((size,), np.uint8)
        held[...] = 1
    assert (held == 1).all()
    assert buffers.get_idle_bytes() == size
    monkeypatch.setattr(memory, "_touch", None)
    with memory.touching(size):
        pass
    buffers.release()
