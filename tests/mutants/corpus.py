"""The corpus: all stories of calls, and all questions, that mutants have to answer."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from offchain.arithmetic.base import Arithmetic
from sim.paper import Lie, PaperRun, Size, make_task
from tests.mutants.illegal import tell_illegal
from tests.mutants.operators import Table, tell_operators
from tests.mutants.places import tell_verdicts
from tests.mutants.plans import tell_plans
from tests.mutants.replay import Story
from tests.mutants.strange import tell_strange
from tests.mutants.tape import Tape
from tests.mutants.teller import Teller
from tests.mutants.vectors import ask_chosen, ask_encodings, ask_leaves, ask_sums
from tests.mutants.walks import take_walk

DRAWN = 60
WALKS = 40


@cache
def make_corpus() -> tuple[Story, ...]:
    """Return all stories."""
    return tuple(_tell())


def tell_wide(arithmetic: Arithmetic) -> Iterator[Story]:
    """Yield stories of a referee of another arithmetic: about what is different there."""
    for operator, term in ((2, 0), (2, 39), (3, 17), (9, 0)):
        task = make_task(Size(5, 1, 9, 8, 9, 40), arithmetic)
        table = Table(task, [PaperRun(task), PaperRun(task, Lie(2, operator, 41, term))])
        table.begin()
        table.play()
        yield Story(table.tape.calls, is_planned=True)
    for calls in (ask_encodings(), ask_sums(arithmetic)):
        yield Story(calls, is_planned=True)
    for calls in (*tell_operators(arithmetic), ask_leaves(arithmetic)):
        yield Story(calls)
    for seed in range(WALKS):
        yield Story(take_walk(seed, arithmetic))
    for stream in np.random.SeedSequence(7).spawn(DRAWN):
        yield Story(Teller(np.random.default_rng(stream), Tape(arithmetic)).tell())


def _tell() -> Iterator[Story]:
    planned = (*tell_plans(), *tell_illegal(), *tell_verdicts(), *tell_strange())
    for calls in (*planned, ask_encodings(), ask_chosen()):
        yield Story(calls, is_planned=True)
    for calls in (*tell_operators(), ask_leaves()):
        yield Story(calls)
    for seed in range(WALKS):
        yield Story(take_walk(seed))
    for stream in np.random.SeedSequence(7).spawn(DRAWN):
        yield Story(Teller(np.random.default_rng(stream)).tell())
