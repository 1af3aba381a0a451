"""One case of the fuzzer: drawn, defined, run in every mode, shown to the contract, played."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.programs.semantics import get_fold
from tests.fuzz import failures, shrinking
from tests.fuzz.batches import (
    FUSED_EVERY,
    LEAVES_A_CASE,
    RUN_EVERY,
    Order,
    Tally,
    find_family,
    make_rng,
)
from tests.fuzz.compare import DifferenceError, Mode, check, define
from tests.fuzz.draws import Case, draw_case, make_case
from tests.fuzz.joined import draw_joined_program, set_masks
from tests.fuzz.large import check_large
from tests.fuzz.leaves import check_leaves, check_match
from tests.fuzz.matrices import draw_matrix_program
from tests.fuzz.rounds import draw_rounds_program, set_counters
from tests.fuzz.runs import check_run, define_run


def draw_mode(seed: int, number: int, family: str) -> Mode:
    """Return how a case is run: on one to three threads, with usual limits or the least ones."""
    rng = Random(f"mode {seed} {number}")
    is_fused = family in {"matrix", "joined", "large"} or number % FUSED_EVERY == 0
    return Mode(rng.randint(1, 3), is_fused, family != "large" and rng.random() < 0.5)


def draw_family_case(rng: Random, family: str) -> Case:
    """Return a case of a kind."""
    if family == "large":
        draw = rng.choice((draw_joined_program, draw_rounds_program, draw_matrix_program))
        case = make_case(rng, draw(rng, is_large=True))
    elif family == "rounds":
        case = make_case(rng, draw_rounds_program(rng))
    elif family == "joined":
        case = make_case(rng, draw_joined_program(rng))
    else:
        return draw_case(rng, is_matrix=family == "matrix")
    set_counters(rng, case.program, case.state)
    set_masks(rng, case.program, case.state)
    return case


def try_case(order: Order, number: int) -> Tally:
    """Draw a case of an order and try it; a failure is kept, and smaller beside it."""
    rng = make_rng(order.seed, number)
    family = order.family or find_family(number)
    case = drawn = draw_family_case(rng, family)
    mode = draw_mode(order.seed, number, family)
    tally = Tally(1, len(case.program.nodes), sum(n.elements for n in case.program.nodes))
    try:
        for case in list_meanings(drawn):
            if family == "large":
                check_large(case, mode, rng)
                continue
            check(case, define(case), mode, rng)
            if family in {"rounds", "joined"} or number % RUN_EVERY == 0:
                check_run(case, define_run(case), mode, rng)
        tally = tally._replace(fused=int(mode.is_fused))
        ending = [it for it in list_meanings(drawn) if it.program.arithmetic.ends_on_chain]
        case = ending[number % len(ending)]
        if order.leaves_every and number % order.leaves_every == 0:
            tally = tally._replace(leaves=check_leaves(case, rng, LEAVES_A_CASE))
        if order.matches_every and number % order.matches_every == 0:
            tally = tally._replace(matches=int(check_match(case, rng)))
    except Exception as difference:  # noqa: BLE001 - whatever stops a case is a failure of it
        path = Path(order.directory) / f"{order.seed}-{number}.json"
        about = {"seed": order.seed, "number": number, "difference": repr(difference)}
        failures.write(path, case, mode, about)
        kind = str(difference).split(":")[0]
        smaller = shrinking.shrink(case, lambda other: fails(other, mode, kind))
        failures.write(path.with_suffix(".small.json"), smaller, mode, about)
        return tally._replace(failures=(f"{path}: {difference!r}",))
    return tally


def list_meanings(case: Case) -> Iterator[Case]:
    """Yield a case in its own arithmetic, and in each other one in which a fold means more."""
    nodes = [node for node in case.program.nodes if node.kind.folds]
    own = [get_fold(case.program.arithmetic, node) for node in nodes]
    yield case
    for arithmetic in ARITHMETICS.values():
        if [get_fold(arithmetic, node) for node in nodes] != own:
            yield case._replace(program=replace(case.program, arithmetic=arithmetic))


def fails(case: Case, mode: Mode, kind: str = "") -> bool:
    """Whether the executor differs from the definition, or by kind a leaf, or a liar wins."""
    rng = Random(0)
    try:
        if kind == "leaf":
            check_leaves(case, rng, 2 * LEAVES_A_CASE)
        elif kind == "match":
            check_match(case, rng)
        elif kind.startswith(("running", "advancing")):
            check_run(case, define_run(case), mode, rng)
        else:
            check(case, define(case), mode, rng)
    except DifferenceError:
        return True
    return False


def replay(path: Path) -> str | None:
    """Try a case that was kept again; return what is wrong, if anything still is."""
    case, mode = failures.read(path)
    try:
        rng = Random(0)
        check(case, define(case), mode, rng)
        for _ in range(4):
            check_run(case, define_run(case), mode, rng)
        check_leaves(case, rng, 2 * LEAVES_A_CASE)
        for _ in range(4):
            check_match(case, rng)
    except DifferenceError as difference:
        return str(difference)
    return None
