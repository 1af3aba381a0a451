"""Rates of operators on one core, on ordinary values and the slowest: `python -m moot.bench.rates`.

What is drawn is what a client may choose: values that bounds leave in doubt, that cancel, that are
subnormal or lie on a boundary, and accesses for which there is no kernel of its own. The table in
`offchain/providers/rates.py` is above what this measures, and a test compares their order.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import torch

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.environment import standard_environment
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.table import DEFAULT, get_backend
from moot.offchain.commitments.tensors import Array
from moot.offchain.frontend.exchange import to_array
from moot.offchain.native.threads import set_threads
from moot.offchain.programs.cost import compute_operator_cost
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.providers.rates import Work, find_rate, find_work

F32, I64 = DType.FLOAT32, DType.INT64
SIDE = 128
"""The sides of a product, whose folds are as long."""
LENGTH = 1 << 12
TRIES = 2

Floats = npt.NDArray[np.float32]
Draw = Callable[[np.random.Generator, int], Floats]
"""(a generator, the terms of a fold) -> as many rows of terms as SIDE."""


def draw_normal(rng: np.random.Generator, terms: int) -> Floats:
    """Return ordinary values."""
    return rng.standard_normal((SIDE, terms)).astype(np.float32)


def draw_subnormal(rng: np.random.Generator, terms: int) -> Floats:
    """Return values below the least normal number."""
    return (rng.standard_normal((SIDE, terms)) * 1e-40).astype(np.float32)


def draw_wide(rng: np.random.Generator, terms: int) -> Floats:
    """Return values of all sizes."""
    sizes = np.exp2(rng.integers(-60, 60, (SIDE, terms)))
    return (rng.standard_normal((SIDE, terms)) * sizes).astype(np.float32)


def draw_cancelling(rng: np.random.Generator, terms: int) -> Floats:
    """Return values whose sums are zero, after errors."""
    half = draw_wide(rng, terms // 2)
    rest = np.zeros((SIDE, terms - 2 * (terms // 2)), np.float32)
    return np.concatenate([half, -half, rest], axis=1)


def draw_tied(rng: np.random.Generator, terms: int) -> Floats:
    """Return values whose sums are the middle of two numbers, after errors."""
    found = draw_cancelling(rng, terms - 2)
    ends = np.tile(np.array([1, 2.0**-24], np.float32), (SIDE, 1))
    return np.concatenate([found, ends], axis=1)


def draw_edges(rng: np.random.Generator, terms: int) -> Floats:
    """Return zeros, ones, infinities, NaN, and the least and the largest numbers."""
    edges = np.array([0, -0.0, 1, -1, np.inf, np.nan, 1e-45, 3.4e38, -3.4e38], np.float32)
    return rng.choice(edges, (SIDE, terms))


DRAWS: Sequence[Draw] = (
    *(draw_normal, draw_subnormal, draw_wide, draw_cancelling, draw_tied, draw_edges),
)


def make_nodes(short: DType | None = None) -> Iterator[Node]:
    """Yield operators of each kind of work, with accesses that have kernels and that have none.

    Contractions of factors of a shorter type are among them, if there is one.
    """
    zero, n, length = immediate(F32, 0), SIDE, LENGTH
    for divisor in (0, 3):

        def along(size: int, variable: int, divisor: int = divisor) -> Row:
            terms = ((variable, max(1, divisor)),)
            return Row(size, terms=terms, divisor=max(1, divisor))

        def read(*rows: Row, reference: int = 0, dtype: DType = F32) -> Operand:
            return Operand(Origin.NODE, dtype, reference, rows=rows)

        for dtype in dict.fromkeys((F32, short or F32)):
            a = read(along(n, 0), along(n, 2), dtype=dtype)
            b = read(along(n, 1), along(n, 2), reference=1, dtype=dtype)
            yield Node(Kind.CONTRACT, Function.FMA, F32, (n, n), (zero, a, b), (n,))
        x = read(along(n, 0), along(length, 1))
        for function in (Function.ADD, Function.MAX, Function.MUL):
            yield Node(Kind.REDUCE, function, F32, (n,), (zero, x), (length,))
        index = Operand(Origin.NODE, I64, 2, rows=(along(length, 2),))
        source = read(along(n, 1), along(length, 2))
        places = (zero, source, index)
        yield Node(Kind.SCATTER, Function.ADD, F32, (8, n), places, (length,), targets=(0,))
        yield Node(Kind.MOVE, Function.COPY, F32, (n, length), (x,))
        for function in (Function.ADD, Function.DIV, Function.FMA):
            count = 3 if function is Function.FMA else 2
            yield Node(Kind.MAP, function, F32, (n, length), (x,) * count)
        for function in (it for it in Function if it.is_transcendental):
            count = 2 if function is Function.POW else 1
            yield Node(Kind.MAP, function, F32, (n, length), (x,) * count)


def list_tensors(node: Node, draw: Draw) -> list[Array | None]:
    """Return the tensors that an operator reads."""
    rng, found = np.random.default_rng(7), list[Array | None]()
    for place, operand in enumerate(node.operands):
        sizes = [row.size for row in operand.rows]
        if operand.origin is Origin.IMMEDIATE:
            found.append(None)
        elif operand.dtype is I64:
            found.append(rng.integers(0, 8, sizes))
        elif node.kind is Kind.CONTRACT and place == 2:
            found.append(np.ones(sizes, np.float32))
        else:
            found.append(draw(rng, prod(sizes) // SIDE).reshape(sizes))
        if operand.dtype is DType.BFLOAT16 and found[-1] is not None:
            found[-1] = to_array(torch.from_numpy(found[-1]).bfloat16())
    return found


def draw_doubtful(function: Function) -> Draw:
    """Return what draws operands of which a function's results are nearest to a boundary."""

    def draw(rng: np.random.Generator, terms: int) -> Floats:
        x = rng.standard_normal(1 << 18).astype(np.float32)
        found = FUNCTIONS[function](x.astype(np.float64))
        near = found.astype(np.float32)
        other = np.where(found < near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf))
        middle = (near.astype(np.float64) + other) / 2
        off = np.abs(found - middle) / np.maximum(np.abs(found), 1e-300)
        chosen = x[np.argsort(np.where(np.isfinite(off), off, np.inf))[:256]]
        return rng.choice(chosen, (SIDE, terms))

    return draw


def measure(node: Node, arithmetic: Arithmetic, draw: Draw) -> float:
    """Return the nanoseconds that a scalar operation takes."""
    plan = get_backend(DEFAULT, arithmetic).plan(node, arithmetic)
    flats = list_tensors(node, draw)
    taken = []
    for _ in range(TRIES):
        started = time.process_time()
        plan.run(flats, 0)
        taken.append(time.process_time() - started)
    return min(taken) / max(compute_operator_cost(node).operations, 1) * 1e9


def measure_definition() -> float:
    """Return the nanoseconds that a power takes by its definition, where all else is in doubt."""
    rng, count = np.random.default_rng(8), 100
    pairs = np.exp(rng.standard_normal((count, 2))).astype(np.float32).view(np.uint32)
    started = time.process_time()
    for pair in pairs.tolist():
        evaluate(Function.POW, [F32, F32], F32, pair)
    return (time.process_time() - started) / count * 1e9


@np.errstate(all="ignore")
def main() -> None:
    """Print the usual and the worst rate of each kind of work, beside those that are counted on."""
    set_threads(1)
    with standard_environment():
        for arithmetic in ARITHMETICS.values():
            usual, worst = dict[Work, float](), dict[Work, tuple[float, str]]()
            for node in make_nodes(arithmetic.short_factors):
                work, named = find_work(node), [*DRAWS]
                if work is Work.POWER and arithmetic.name == "logged":
                    continue
                if work is Work.FUNCTION and node.function in FUNCTIONS:
                    named.append(draw_doubtful(node.function))
                is_plain = all(row.divisor == 1 for it in node.operands for row in it.rows)
                for draw in named:
                    found = measure(node, arithmetic, draw)
                    if draw is draw_normal and is_plain:
                        usual[work] = max(usual.get(work, 0.0), found)
                    about = f"{node.function.name.lower()}, {draw.__name__}, plain {is_plain}"
                    worst[work] = max(worst.get(work, (0.0, "")), (found, about))
            for work, (found, about) in worst.items():
                known = find_rate(arithmetic, work)
                sys.stdout.write(
                    f"{arithmetic.name:8} {work.name.lower():9} usual {usual[work]:9.3f} of "
                    f"{known.usual_ns:9.3f} ns, worst {found:9.3f} of {known.worst_ns:9.1f} ns: "
                    f"{about}\n"
                )
    sys.stdout.write(f"a power by definition {measure_definition():,.0f} ns\n")


if __name__ == "__main__":
    main()
