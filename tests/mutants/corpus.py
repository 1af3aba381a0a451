"""The corpus: all stories of calls, and all questions, that mutants have to answer.

`tests/mutants/test_corpus.py` puts it to model and contract, so that whatever kills a mutant turns
a test red.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import HOPPER
from moot.sim.synthetic.products import Lie, ProductRun, Size, make_task
from tests.mutants.illegal import tell_illegal
from tests.mutants.operators import Table, tell_operators
from tests.mutants.places import tell_verdicts
from tests.mutants.plans import tell_plans
from tests.mutants.replay import Call, Story
from tests.mutants.strange import tell_strange
from tests.mutants.vectors import ask_chosen, ask_encodings, ask_leaves, ask_sums
from tests.mutants.walks import draw_size, take_walk

DRAWN = 60
WALKS = 40

OF_SUMS = ("folds", "leaves", "sums")
"""The groups in which an arithmetic's sums are told."""

Tell = Callable[[int], Iterator[Story]]
"""Yields the stories of a group, or one in so many of them."""


@cache
def make_corpus() -> tuple[Story, ...]:
    """Return all stories of the referee of `ordered`, and those of the sums that others have."""
    wide = ((arithmetic, list_groups(arithmetic)) for arithmetic in (EXACT, HOPPER))
    sums = (
        replace(story, arithmetic=arithmetic)
        for arithmetic, groups in wide
        for name in OF_SUMS
        for story in groups[name](1)
    )
    return (*tell_all(ORDERED), *sums)


def tell_all(arithmetic: Arithmetic) -> Iterator[Story]:
    """Yield all stories of the referee of an arithmetic."""
    for tell in list_groups(arithmetic).values():
        yield from tell(1)


def list_groups(arithmetic: Arithmetic) -> Mapping[str, Tell]:
    """Return the groups of stories by their names; of another than `ordered` what differs there."""
    drawn: dict[str, Tell] = {
        "operators": lambda step: _take(tell_operators(arithmetic), step),
        "leaves": lambda _: _take([ask_leaves(arithmetic)]),
        "walks": lambda step: _take(take_walk(seed, arithmetic) for seed in range(0, WALKS, step)),
        "drawn": lambda step: _take(
            take_walk(seed, arithmetic, [draw_size(seed)])
            for seed in range(WALKS, WALKS + DRAWN, step)
        ),
    }
    if arithmetic != ORDERED:
        planned: dict[str, Tell] = {
            "folds": lambda step: _take(_tell_folds(arithmetic), step, is_planned=True),
            "encodings": lambda _: _take([ask_encodings()], is_planned=True),
            "sums": lambda _: _take([ask_sums(arithmetic)], is_planned=True),
        }
        return planned | drawn
    planned = {
        "plans": lambda step: _take(tell_plans(), step, is_planned=True),
        "illegal": lambda step: _take(tell_illegal(), step, is_planned=True),
        "verdicts": lambda step: _take(tell_verdicts(), step, is_planned=True),
        "strange": lambda step: _take(tell_strange(), step, is_planned=True),
        "encodings": lambda _: _take([ask_encodings()], is_planned=True),
        "chosen": lambda _: _take([ask_chosen()], is_planned=True),
    }
    return planned | drawn


def _take(
    told: Iterable[list[Call]], step: int = 1, *, is_planned: bool = False
) -> Iterator[Story]:
    return (Story(calls, is_planned) for calls in islice(told, 0, None, step))


def _tell_folds(arithmetic: Arithmetic) -> Iterator[list[Call]]:
    for operator, term in ((2, 0), (2, 39), (3, 17), (9, 0)):
        task = make_task(Size(5, 1, 9, 8, 9, 40), arithmetic)
        table = Table(task, [ProductRun(task), ProductRun(task, Lie(2, operator, 41, term))])
        table.begin()
        table.play()
        yield table.tape.calls
