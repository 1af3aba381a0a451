"""The disputes whose gas is measured, as data; `moot.sim.gas.play` plays them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.commitments.tree import MAX_ARITY_LOG2
from moot.sim.gas.subjects import EMPTY, FUNCTIONS, KINDS
from moot.sim.synthetic.elements import Subject
from moot.sim.synthetic.products import FIRST_PRODUCT, MIDDLE, SLOTS, Lie, Size


@dataclass(frozen=True, slots=True)
class Scenario:
    """One dispute between honest members and liars, or an agreement where nobody lies.

    Attributes:
        name: what it is called.
        about: what happens, in a few words.
        size: the sizes of the job, if it is a synthetic one (`moot.sim.synthetic.products`).
        lies: what the liars of such a job claim.
        subject: the operator that a liar is wrong about, if the job is about one.
        program: the captured program that is run, if there is one.
        honest: how many honest members there are.
        is_late: whether the last of them joins after the first match has begun.
        is_ruled: whether the bounded verifier decides.
        arity_log2: how many levels of a tree a move opens, at most.
        arithmetic: of the job's program, by name.
    """

    name: str
    about: str
    size: Size | None = None
    lies: tuple[Lie, ...] = ()
    subject: Subject | None = None
    program: str = ""
    honest: int = 1
    is_late: bool = False
    is_ruled: bool = False
    arity_log2: int = MAX_ARITY_LOG2
    arithmetic: str = ORDERED.name

    @property
    def halvings(self) -> int | None:
        """The bits of the position of the scalar operation, if the job is a synthetic one."""
        size = self.size
        if size is None:
            return None
        steps, elements = size.checkpoints * size.checkpoint_every, size.rows * size.columns
        return sum(
            (count - 1).bit_length() for count in (steps, size.operators, elements, size.terms)
        )


LARGE = Size()
SMALL = Size(checkpoints=16, operators=16, rows=8, columns=16, terms=16)
"""The sizes of jobs whose cost does not depend on them."""


def place_lie(size: Size) -> Lie:
    """Return a lie to which the paths turn left and right by turns, as far down as trees go."""
    most = size.operators - SLOTS - 1
    return Lie(
        step=_shorten(MIDDLE.step, size.checkpoints - 1) * size.checkpoint_every
        + _shorten(MIDDLE.step, size.checkpoint_every - 1),
        operator=max(FIRST_PRODUCT, _shorten(MIDDLE.operator, most)),
        element=_shorten(MIDDLE.element, size.rows * size.columns - 1),
        term=_shorten(MIDDLE.term, size.terms - 1),
    )


def _shorten(place: int, most: int) -> int:
    """Return the first bits of a place, as many as fit."""
    while place > most:
        place >>= 1
    return place


def _dispute(name: str, about: str, size: Size, arity_log2: int = MAX_ARITY_LOG2) -> Scenario:
    return Scenario(name, about, size, (place_lie(size),), arity_log2=arity_log2)


def _end(name: str, about: str, *lies: Lie, is_ruled: bool = False) -> Scenario:
    return Scenario(f"ending-{name}", about, SMALL, lies, is_ruled=is_ruled)


REFERENCE = _dispute(
    "reference",
    "2^20 checkpoints, 2^12 operators, 2^20 elements, folds of 2^12 terms",
    LARGE,
)

SPACES = (
    _dispute(
        "checkpoints-2^10",
        "the reference, with 2^10 checkpoints",
        replace(LARGE, checkpoints=1 << 10),
    ),
    _dispute(
        "checkpoints-2^15",
        "the reference, with 2^15 checkpoints",
        replace(LARGE, checkpoints=1 << 15),
    ),
    _dispute(
        "operators-2^8", "the reference, with 2^8 operators", replace(LARGE, operators=1 << 8)
    ),
    _dispute(
        "elements-2^10",
        "the reference, with 2^10 elements",
        replace(LARGE, rows=1 << 5, columns=1 << 5),
    ),
    _dispute(
        "elements-2^15",
        "the reference, with 2^15 elements",
        replace(LARGE, rows=1 << 7, columns=1 << 8),
    ),
    _dispute("terms-2^6", "the reference, with 2^6 terms", replace(LARGE, terms=1 << 6)),
    _dispute(
        "intervals-2^5",
        "the reference, with 2^15 checkpoints, every 2^5 steps",
        replace(LARGE, checkpoints=1 << 15, checkpoint_every=1 << 5),
    ),
    _dispute("small", "2^4 checkpoints, 2^4 operators, 2^7 elements, 2^4 terms", SMALL),
)

LEAVES = tuple(
    Scenario(f"leaf-{name}", f"the scalar operation is of a {name} operator", subject=subject)
    for name, subject in KINDS.items()
) + tuple(
    Scenario(f"leaf-{name}", f"the scalar operation is {name}", subject=subject)
    for name, subject in FUNCTIONS.items()
)

_SUMS = frozenset({"leaf-contract", "leaf-reduce", "leaf-scatter", "leaf-map"})
_CHAINS = frozenset({"leaf-contract", "leaf-map"})
"""Leaves that cost something else where accumulators are exact sums, and chains of blocks."""

_LIE = place_lie(SMALL)
ENDINGS = (
    Scenario("ending-agreement", "two members claim the same", SMALL, honest=2),
    _end("clock", "the liar never moves", replace(_LIE, is_silent=True)),
    _end(
        "sink",
        "the liar's state is not made of its outputs",
        replace(_LIE, operator=SMALL.operators),
    ),
    Scenario("ending-empty", "the output in dispute has no elements", subject=EMPTY),
    _end("verifier", "the bounded verifier rules", _LIE, is_ruled=True),
)

MEMBERS = (
    Scenario(
        "two-members", "two members of the honest claim play a liar", SMALL, (_LIE,), honest=2
    ),
    Scenario(
        "join-late",
        "the second of them joins after the first move",
        SMALL,
        (_LIE,),
        honest=2,
        is_late=True,
    ),
    Scenario(
        "two-liars", "two different lies, knocked out in turn", SMALL, (_LIE, replace(_LIE, step=3))
    ),
)

ARITIES = tuple(
    _dispute(
        f"arity-{1 << levels}",
        f"the reference, with openings of {1 << levels} nodes",
        LARGE,
        levels,
    )
    for levels in range(1, MAX_ARITY_LOG2)
)
"""The reference dispute on referees whose moves open fewer levels of a tree."""

_OF_SUMS = (REFERENCE, SPACES[-1], *(it for it in LEAVES if it.name in _SUMS))
_OF_CHAINS = (REFERENCE, SPACES[-1], *(it for it in LEAVES if it.name in _CHAINS))
WIDE = tuple(
    replace(
        scenario,
        name=f"{scenario.name}-{arithmetic.name}",
        about=f"{scenario.about}, in `{arithmetic.name}`",
        arithmetic=arithmetic.name,
    )
    for arithmetic, scenarios in ((EXACT, _OF_SUMS), (HOPPER, _OF_CHAINS), (AMPERE, _OF_CHAINS))
    for scenario in scenarios
)
"""Scenarios in which accumulators are wider than elements."""

PROGRAMS = tuple(
    Scenario(f"program-{name}", f"training the {name}, as small as it comes", program=name)
    for name in ("mlp", "cnn", "gpt2")
)
"""Real programs, run by both sides; the liar flips a bit of an operator's output."""

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *(REFERENCE, *SPACES, *LEAVES, *ENDINGS, *MEMBERS),
        *(*WIDE, *PROGRAMS, *ARITIES),
    )
}
