"""A device's tensor cores: what they add up, beside the definition, and how fast products are.

There are rows of several parts, in turn, as long as there is time: the trial of blocks, millions of
blocks that are drawn, products beside cuBLAS's, of bfloat16, of bytes and in `exact`, steps beside
eager and compiled torch in bfloat16, and states beside the processor's. A part that fails says why,
and the others go on.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from moot.bench import device as whole
from moot.bench.models import Stock, make_stock_step
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.backends.table import get_backend
from moot.offchain.errors import DeviceError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.graph import Node

PARTS = ("trial", "volume", "products", "tiles", "bytes", "exact", "steps", "states")

TILED = ((1024, 768, 3072), (4096, 4096, 4096))
"""Products that are timed in every tile, those of bytes and in `exact`, too."""

BLOCKS_DRAWN = {False: 10**8, True: 10**4}
"""Blocks that are compared with the definition; few for a trial."""

ROUND = {False: 1 << 13, True: 1 << 6}
"""Rows of eight sums that are drawn at once."""

SIZES = {False: ("small", "full"), True: ("tiny",)}
"""Sizes of the GPT-2 whose steps are timed."""

STATES = {
    False: (("mlp", "tiny", 4), ("mlp", "small", 1), ("gpt2", "tiny", 1)),
    True: (("mlp", "tiny", 1),),
}
"""Programs, their sizes and their steps, whose states are compared with the processor's."""

STOCKS = {"eager": Stock(), "compiled": Stock(is_fused=True, is_compiled=True)}
"""How torch trains in bfloat16."""

SAMPLED = 64
"""Rows and columns of a product whose elements are compared with the definition."""

_ONE = 0x3F80

Row = dict[str, Any]
Patterns = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint32]
Tell = Callable[[str], None]
Keep = Callable[[Row], None]


def measure_tensor_cores(
    backend: str,
    seconds: float,
    repeats: int,
    *,
    is_tiny: bool,
    known: Row | None = None,
    tell: Tell = lambda _: None,
    keep: Keep = lambda _: None,
) -> Row:
    """Return all that is known about a device's tensor cores.

    Args:
        backend: the device, or the emulator.
        seconds: after so many no row begins.
        repeats: turns of each side.
        is_tiny: whether sizes are used that say nothing.
        known: what was found before: where it lacks parts, the others are not measured again.
        tell: is told of each row when it is there.
        keep: is given all that is known, after each row.

    Raises:
        DeviceError: there is no device, or it has no tensor cores for bfloat16.
    """
    deadline = time.monotonic() + seconds
    arithmetic = find_generation(backend)
    found: Row = {"arithmetic": arithmetic.name, "done": []}
    if known and set(known["done"]) != {*PARTS}:
        found |= known | {"done": [*known["done"]]}
    found["errors"] = {}
    bench = _Bench(backend, arithmetic, repeats, is_tiny=is_tiny)
    for part in PARTS:
        if part in found["done"]:
            continue
        rows: Iterator[Row] = getattr(bench, part)()
        found[part] = []
        is_done = False
        try:
            while time.monotonic() < deadline:
                row = next(rows, None)
                if row is None:
                    is_done = True
                    break
                found[part].append(row)
                tell(f"{part}: {', '.join(f'{key} {_write(x)}' for key, x in row.items())}")
                keep(found)
        except Exception as error:  # noqa: BLE001 - whatever fails, the other parts are wanted
            found["errors"][part] = f"{type(error).__name__}: {error}"
            tell(f"{part}: {found['errors'][part]}")
        if is_done:
            found["done"].append(part)
        elif part not in found["errors"]:
            tell(f"{part}: no more time")
        keep(found)
    return found


def _write(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def is_right(found: Row) -> bool:
    """Whether nothing that was compared was wrong, and no part failed."""
    rows = [*found.get("trial", []), *found.get("volume", [])]
    products = (row for part in ("products", "bytes", "exact") for row in found.get(part, []))
    is_equal = all(row["equal"] for row in products)
    is_equal &= all(row["equal"] == row["steps"] for row in found.get("states", []))
    return is_equal and not found.get("errors") and not any(row["wrong"] for row in rows)


def find_generation(backend: str) -> Arithmetic:
    """Return the arithmetic of a device's tensor cores.

    Raises:
        DeviceError: there is no device, or it has none.
    """
    machine: Any = getattr(get_backend(backend, ORDERED), "machine", None)
    generations = getattr(machine, "generations", ())
    if not generations:
        raise DeviceError(f"{getattr(machine, 'name', backend)} has no tensor cores for bfloat16")
    return find_arithmetic(generations[0])


class _Bench:
    """The parts, each of which yields rows."""

    def __init__(
        self, backend: str, arithmetic: Arithmetic, repeats: int, *, is_tiny: bool
    ) -> None:
        self._backend, self._arithmetic, self._repeats = backend, arithmetic, repeats
        self._is_tiny = is_tiny
        device: Any = get_backend(backend, arithmetic)
        self._device, self._examination = device, device.examine(arithmetic, ROUND[is_tiny])

    def trial(self) -> Iterator[Row]:
        """Yield what the trial says of each instruction, and which blocks come closest."""
        for tried in (*self._examination.try_blocks(), *self._examination.try_bytes()):
            yield tried._asdict()

    def volume(self) -> Iterator[Row]:
        """Yield of how many drawn blocks how many sums are wrong, by kinds of numbers."""
        blocks, wrong, began = 0, Counter[str](), time.perf_counter()
        while blocks < BLOCKS_DRAWN[self._is_tiny]:
            drawn = self._examination.draw()
            blocks += drawn.blocks
            wrong.update(drawn.wrong)
        seconds = time.perf_counter() - began
        yield {"blocks": blocks, "wrong": wrong.total(), **wrong, "seconds": seconds}

    def products(self) -> Iterator[Row]:
        """Yield for each product its bits' agreement, our speed, and torch's where it is there.

        The second factor has a row for each column of the product, as weights do, or for each step.
        """
        shapes = whole.TINY_PRODUCTS if self._is_tiny else whole.PRODUCTS
        for shape, is_turned in product(shapes, (True, False)):
            yield self._time_product(shape, is_turned=is_turned)

    def tiles(self) -> Iterator[Row]:
        """Yield the speed of each tile in products that are large, and in small ones."""
        for shape in self._tiled:
            rows, steps, columns = shape
            node = make_product(shape, is_turned=True)
            factors = (np.full(s, _ONE, np.uint16) for s in ((rows, steps), (columns, steps)))
            tensors = [None, *map(self._device.admit, factors)]
            for name, plan in self._examination.plan_tiles(node):
                seconds = self._time([partial(plan.run, tensors, 0)])[0]
                speed = 2e-12 * rows * steps * columns / seconds
                yield {"shape": " x ".join(map(str, shape)), "tile": name, "tflops": speed}

    def bytes(self) -> Iterator[Row]:
        """Yield for each tile of bytes its sums' agreement, and its speed beside torch's."""
        rng = np.random.default_rng(0)
        for shape in self._tiled:
            rows, steps, columns = shape
            a, b = (
                rng.integers(-128, 128, s).astype(np.int8)
                for s in ((rows, steps), (columns, steps))
            )
            sample = _Sample(a, b)
            expected = sample.a.astype(np.int32) @ sample.b.astype(np.int32).T
            stock = list[Callable[[], object]]()
            if whole.has_stock(self._backend):
                x, y = (torch.from_numpy(t).cuda() for t in (a, b))
                stock.append(partial(torch._int_mm, x, y.t()))  # noqa: SLF001 - torch's name
            plans = self._examination.plan_byte_tiles(make_byte_product(shape))
            tensors = [None, *map(self._device.admit, (a, b))]
            yield from self._time_tiles(shape, plans, tensors, (sample, expected), stock)

    def exact(self) -> Iterator[Row]:
        """Yield for each tile of products in `exact` their bits' agreement, and their speed."""
        rng, processor = np.random.default_rng(0), get_backend("cpu", EXACT)
        for shape in self._tiled:
            rows, steps, columns = shape
            a, b = (rng.standard_normal(s, np.float32) for s in ((rows, steps), (steps, columns)))
            sample = _Sample(a, b.T)
            few = processor.plan(whole.make_product(SAMPLED, steps, SAMPLED), EXACT)
            expected = few.run([None, sample.a, np.ascontiguousarray(sample.b.T)], 0)
            stock = list[Callable[[], object]]()
            if whole.has_stock(self._backend):
                torch.backends.cuda.matmul.allow_tf32 = False
                stock.append(partial(torch.matmul, *(torch.from_numpy(t).cuda() for t in (a, b))))
            plans = self._examination.plan_exact_tiles(whole.make_product(*shape))
            tensors = [None, *map(self._device.admit, (a, b))]
            yield from self._time_tiles(shape, plans, tensors, (sample, expected), stock)

    def _time_tiles(
        self,
        shape: tuple[int, int, int],
        plans: Iterable[tuple[str, Any]],
        tensors: Sequence[Any],
        known: tuple["_Sample", npt.NDArray[Any]],
        stock: Sequence[Callable[[], object]],
    ) -> Iterator[Row]:
        """Yield a row of each plan of a product: its agreement with a sample, and its speed."""
        (sample, expected), work = known, 2e-12 * prod(shape)
        for name, plan in plans:
            found = self._device.fetch(plan.run(tensors, 0))
            seconds = self._time([partial(plan.run, tensors, 0), *stock])
            is_equal = not sample.count_wrong(found, expected)
            row: Row = {"shape": " x ".join(map(str, shape)), "tile": name, "equal": is_equal}
            yield row | {"tflops": work / seconds[0]} | whole.compare(seconds)

    @property
    def _tiled(self) -> Sequence[tuple[int, int, int]]:
        return whole.TINY_PRODUCTS if self._is_tiny else TILED

    def _time(self, sides: Sequence[Callable[[], object]]) -> list[float]:
        """Return the seconds of each side, asked for as often as a step asks."""
        count = 1 if self._is_tiny else whole.AT_ONCE
        many = [partial(whole.ask_again, side, count) for side in sides]
        wait = partial(whole.wait, self._device)
        return [s / count for s in whole.time_sides(many, wait, self._repeats)]

    def _time_product(self, shape: tuple[int, int, int], *, is_turned: bool) -> Row:
        device, rng = self._device, np.random.default_rng(0)
        rows, steps, columns = shape
        a, b = (
            shorten(rng.standard_normal(s, np.float32)) for s in ((rows, steps), (columns, steps))
        )
        given = b if is_turned else np.ascontiguousarray(b.T)
        plan = device.plan(make_product(shape, is_turned=is_turned), self._arithmetic)
        tensors = [None, device.admit(a), device.admit(given)]
        found = device.fetch(plan.run(tensors, 0))
        sample = _Sample(a, b)
        wrong = sample.count_wrong(found, self._examination.define(sample.a, sample.b))
        sides: list[Callable[[], object]] = [partial(plan.run, tensors, 0)]
        if whole.has_stock(self._backend):
            x, y = (as_bfloat16(t).cuda() for t in (a, given))
            sides.append(partial(torch.matmul, x, y.T if is_turned else y))
        seconds = self._time(sides)
        speed = 2e-12 * rows * steps * columns / seconds[0]
        row = {"shape": " x ".join(map(str, shape)), "turned": is_turned, "equal": not wrong}
        return row | {"ours_s": seconds[0], "tflops": speed} | whole.compare(seconds)

    def steps(self) -> Iterator[Row]:
        """Yield the seconds of a step of GPT-2 in bfloat16, ours and torch's."""
        for size in SIZES[self._is_tiny]:
            recipe = build("gpt2", size)
            assert isinstance(recipe, TrainingRecipe)
            narrow = set_precision(recipe, "bf16")
            captured = capture(narrow, trust=True, arithmetic=self._arithmetic)
            for way in ("graphs", "regions"):
                device = whole.make_device(self._backend, captured.program, way)
                run = whole.make_run(captured, device, [*captured.initial_state])
                for _ in range(1 if self._is_tiny else whole.WARM_STEPS):
                    run()
                launches = whole.count_launches(device, run)
                wait = partial(whole.wait, device)
                (seconds,) = whole.time_sides([run], wait, self._repeats)
                row = {"program": f"gpt2, {size}", "side": way, "launches": launches}
                yield row | {"seconds": seconds}
            if whole.has_stock(self._backend):
                for name, stock in STOCKS.items():
                    yield {"program": f"gpt2, {size}", "side": name} | self._time_stock(
                        recipe, stock
                    )

    def _time_stock(self, recipe: TrainingRecipe, stock: Stock) -> Row:
        """Return the seconds of a step of torch's, or why there are none."""
        try:
            step = make_stock_step(narrow_on_device(recipe), stock=stock, device="cuda")
            for _ in range(3):
                step(0)
            (seconds,) = whole.time_sides([partial(step, 0)], torch.cuda.synchronize, self._repeats)
        except Exception as error:  # noqa: BLE001 - torch's compiler may want what is not there
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        return {"seconds": seconds}

    def states(self) -> Iterator[Row]:
        """Yield for each program in how many steps its states had the processor's roots."""
        for name, size, steps in STATES[self._is_tiny]:
            yield from whole.compare_states(
                self._backend, [name], size, steps, self._arithmetic, "bf16"
            )


class _Sample:
    """Some elements of a product: their rows of both factors, and where they are.

    Args:
        a: the first factor's rows.
        b: the second factor's, a row for each column of the product.
    """

    def __init__(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
        rng = np.random.default_rng(1)
        rows, columns = (rng.integers(0, len(x), SAMPLED) for x in (a, b))
        self._places = np.ix_(rows, columns)
        self.a, self.b = a[rows], b[columns]

    def count_wrong(self, found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> int:
        """Return how many of the elements have other bits than they should."""
        mine, theirs = (x.view(np.uint32) for x in (found[self._places], expected))
        return int(np.count_nonzero(mine != theirs))


def make_byte_product(shape: tuple[int, int, int]) -> Node:
    """Return the product of two matrices of bytes, the second of which is turned."""
    node = make_product(shape, is_turned=True)
    init, *factors = (replace(operand, dtype=DType.INT8) for operand in node.operands)
    operands = replace(init, dtype=DType.INT32), *factors
    return replace(node, dtype=DType.INT32, operands=operands)


def make_product(shape: tuple[int, int, int], *, is_turned: bool) -> Node:
    """Return the product of two matrices in bfloat16, the second of which may be turned."""
    node = whole.make_product(*shape)
    init, *factors = (replace(operand, dtype=DType.BFLOAT16) for operand in node.operands)
    if is_turned:
        factors[1] = replace(factors[1], rows=factors[1].rows[::-1])
    return replace(node, operands=(replace(init, dtype=DType.FLOAT32), *factors))


def shorten(values: npt.NDArray[np.float32]) -> Patterns:
    """Return the patterns of floats in bfloat16, cut."""
    patterns: Patterns = (values.view(np.uint32) >> 16).astype(np.uint16)
    return patterns


def as_bfloat16(patterns: Patterns) -> torch.Tensor:
    """Return patterns as a tensor of torch."""
    return torch.from_numpy(patterns.view(np.int16)).view(torch.bfloat16)


def narrow_on_device(recipe: TrainingRecipe) -> TrainingRecipe:
    """Return a recipe whose model computes in bfloat16 on a device, as torch has it there."""

    @wraps(recipe.loss)
    def loss(*arguments: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return recipe.loss(*arguments)

    return replace(recipe, loss=loss)
