"""Dependencies between tasks by the memory that they use, and memory that brings about few."""

from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.concurrent_memory import ConcurrentMemory
from moot.offchain.backends.cuda.dependencies import Uses, find_dependencies
from moot.offchain.backends.layout import SequenceLayout
from moot.offchain.backends.port import Step
from moot.offchain.native.memory_layout import Memory, Range

ranges = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 8)), max_size=3).map(
    lambda drawn: [(first, first + size) for first, size in drawn]
)
tasks = st.lists(st.builds(Uses, ranges, ranges), max_size=24)


def overlap(some: list[Range], others: list[Range]) -> bool:
    """Whether a byte is in a range of both."""
    return any(max(a[0], b[0]) < min(a[1], b[1]) for a in some for b in others)


def conflict(task: Uses, other: Uses) -> bool:
    """Whether one of two tasks writes what the other uses."""
    (reads, writes), (others_reads, others_writes) = map(cast_lists, (task, other))
    return overlap(writes, others_reads + others_writes) or overlap(reads, others_writes)


def cast_lists(uses: Uses) -> tuple[list[Range], list[Range]]:
    """Return both as lists."""
    return [*uses.reads], [*uses.writes]


def close(edges: list[list[int]]) -> list[set[int]]:
    """Return for each task all that it comes after."""
    found: list[set[int]] = []
    for others in edges:
        found.append(set(others).union(*(found[other] for other in others)))
    return found


@given(tasks)
def test_edges_order_tasks_that_conflict_and_no_others(drawn: list[Uses]) -> None:
    """Who conflicts is ordered, nobody else is unless by way of others, and no edge is implied."""
    conflicts = [
        [other for other in range(number) if conflict(task, drawn[other])]
        for number, task in enumerate(drawn)
    ]
    edges = find_dependencies(drawn)
    ordered = close(edges)
    assert ordered == close(conflicts)
    for number, others in enumerate(edges):
        assert others == sorted(set(others))
        assert set(others) <= set(conflicts[number])
        assert not any(other in ordered[between] for between in others for other in others)


class Output(NamedTuple):
    """An output of so many bytes."""

    elements: int
    dtype: DType = DType.INT8


def draw_steps(rng: Random) -> list[Step]:
    """Return tasks that read what some of those before have made, of drawn sizes."""
    steps, made = list[Step](), [1]
    for number in range(rng.randrange(1, 40)):
        reads = tuple(rng.choice(made[-rng.randrange(1, 12) :]) for _ in range(rng.randrange(3)))
        outputs = [Output(rng.randrange(1, 40)) for _ in range(rng.randrange(1, 3))]
        writes = tuple(10 * number + 10 + i for i in range(len(outputs)))
        made += writes
        steps.append(Step(cast("Any", None), reads, writes, cast("Any", tuple(outputs))))
    return steps


def lay_out(steps: list[Step], memory: Memory, rng: Random) -> tuple[list[Uses], list[Uses]]:
    """Return what tasks use, by where it is and by its name; some reserve memory, too."""
    layout, at = SequenceLayout(steps, type("Alias", (), {}), ()), dict[int, Range]()
    uses, names = list[Uses](), list[Uses]()
    for step, new in layout.lay_out([1], memory):
        at.update((p, (q.offset, q.offset + layout.sizes[p])) for p, q in new.items())
        sizes = [rng.randrange(1, 40) for _ in range(rng.randrange(2))]
        reserved = [(memory.reserve(size).offset, size) for size in sizes]
        writes = [*(at[place] for place in step.writes), *((a, a + s) for a, s in reserved)]
        reads = [place for place in step.reads if place != 1]
        uses.append(Uses([at[place] for place in reads], writes))
        names.append(Uses([(p, p + 1) for p in reads], [(p, p + 1) for p in step.writes]))
    return uses, names


@pytest.mark.parametrize("number", range(60))
def test_memory_makes_nobody_wait_where_there_is_enough(number: int) -> None:
    """Without a limit tasks wait for what they read; with nothing to spare all is as in turns."""
    steps, in_turns = draw_steps(Random(number)), Memory(1)
    uses, names = lay_out(steps, in_turns, Random(number))
    tight, ample = ConcurrentMemory(1, 0), ConcurrentMemory(1, 1 << 40)
    assert lay_out(steps, tight, Random(number))[0] == uses
    assert tight.most_bytes == in_turns.most_bytes
    apart, _ = lay_out(steps, ample, Random(number))
    assert close(find_dependencies(apart)) == close(find_dependencies(names))
    assert ample.most_bytes == max(stop for own in apart for _, stop in own.writes)


def test_more_memory_leaves_fewer_that_wait_in_vain() -> None:
    """Over drawn sequences, each limit that is higher takes more and orders fewer pairs."""
    waits, sizes = np.zeros(4), np.zeros(4)
    for number in range(60):
        steps, in_turns = draw_steps(Random(number)), Memory(1)
        lay_out(steps, in_turns, Random(number))
        for place, quarters in enumerate((0, 4, 5, 40)):
            memory = ConcurrentMemory(1, in_turns.most_bytes * quarters // 4)
            uses, _ = lay_out(steps, memory, Random(number))
            waits[place] += sum(map(len, close(find_dependencies(uses))))
            sizes[place] += memory.most_bytes
    assert all(more > fewer for more, fewer in pairwise(waits))
    assert all(fewer <= more for fewer, more in pairwise(sizes))


def test_a_chain_needs_no_more_than_in_turns() -> None:
    """Memory goes on to tasks that come after its users anyway, however much there is."""
    outputs = [Output(10)] * 30
    steps = [
        Step(cast("Any", None), (number + 1,), (number + 2,), cast("Any", (output,)))
        for number, output in enumerate(outputs)
    ]
    ample, rng = ConcurrentMemory(1, 1 << 40), Random(0)
    layout = SequenceLayout(steps, type("Alias", (), {}), ())
    for _ in layout.lay_out([1], ample):
        if rng.randrange(2):
            ample.reserve(10)
    assert ample.most_bytes == 30


def test_what_was_given_back_first_is_had_first() -> None:
    """Beyond the limit a task waits for those who are done the longest."""
    memory = ConcurrentMemory(1, 20)
    taken = []
    for _ in range(2):
        memory.begin_task((), ())
        taken.append(memory.take(10))
    for place in reversed(taken):
        memory.give_back(place)
    memory.begin_task((), ())
    assert memory.take(10) == taken[1]


def test_who_waits_for_a_task_has_all_that_it_had() -> None:
    """A task that had to have another's memory waits for it, and so do those that read its own."""
    memory = ConcurrentMemory(1, 25)
    memory.begin_task((), ())
    taken = [memory.take(10), memory.take(10)]
    for place in taken:
        memory.give_back(place)
    memory.begin_task((), ())
    own = memory.take(10)
    assert own == taken[0]
    memory.begin_task((1,), (own,))
    assert memory.take(5) == taken[1]
