"""A device beside the processor: the bits of training, the speed of products, hashes and steps.

Bits are compared with those of the processor, state by state. Where torch has the device, too, its
products and steps are timed in turns with ours; TF32 is off.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from moot.bench.models import make_stock_step
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.table import get_backend
from moot.offchain.commitments.tensors import (
    commit_tensor,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.execution.residents import hash_all
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.captured import Captured
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, immediate

PARTS = ("products", "hashes", "states", "steps")
"""What is measured; tensor cores have a module of their own."""

PROGRAMS = ("mlp", "gpt2", "llama", "resnet", "bert")
PRODUCTS = (
    (1024, 768, 768),
    (1024, 768, 2304),
    (1024, 768, 3072),
    (1024, 3072, 768),
    (768, 1024, 3072),
    (1024, 768, 50257),
    (1024, 50257, 768),
    (4096, 4096, 4096),
)
"""Rows, steps and columns of products: those of GPT-2 124M for 1,024 tokens, and a large one."""

TINY_PRODUCTS = ((130, 40, 70),)
AT_ONCE = 10
"""Products that are asked for before the device is waited for, as a step asks for them."""

HASHED = {False: 1 << 28, True: 1 << 12}
"""Elements of the tensor that is hashed; few for a trial."""

WAYS: Mapping[str, Sequence[str]] = {
    "graphs": (),
    "regions": ("is_called",),
    "apart": ("is_called", "is_fusible"),
}
"""How a step is run, and what the backend then says no to: graphs of launches and regions, regions
alone, and operators one by one."""

WARM_STEPS = 16
"""Steps after which launches are a graph, where they can be."""

RESULTS = Path(__file__).parents[2] / "docs" / "measurements" / "devices.json"
PAGE = RESULTS.with_suffix(".md")

_F32 = DType.FLOAT32


def make_product(rows: int, steps: int, columns: int) -> Node:
    """Return the product of two matrices, of shapes (rows, steps) and (steps, columns)."""
    a = Operand(Origin.STATE, _F32, 0, 0, (Row(rows, 0, ((0, 1),)), Row(steps, 0, ((2, 1),))))
    b = Operand(Origin.STATE, _F32, 1, 0, (Row(steps, 0, ((2, 1),)), Row(columns, 0, ((1, 1),))))
    operands = (immediate(_F32, 0), a, b)
    return Node(Kind.CONTRACT, Function.FMA, _F32, (rows, columns), operands, (steps,))


def compare_states(
    backend: str,
    programs: Sequence[str],
    size: str,
    steps: int,
    arithmetic: Arithmetic = ORDERED,
    precision: str = "fp32",
) -> Iterator[dict[str, Any]]:
    """Yield for each program in how many steps its states had the processor's roots."""
    for name in programs:
        recipe = set_precision(build(name, size), precision)
        captured = capture(recipe, trust=True, arithmetic=arithmetic)
        sides = [Executor(captured.program), Executor(captured.program, backend=backend)]
        states = [captured.initial_state] * 2
        equal = 0
        began = time.perf_counter()
        for step in range(steps):
            batch = captured.batch(step)
            states = [s.run(x, batch, step) for s, x in zip(sides, states, strict=True)]
            roots = [compute_state_root([compute_tensor_root(a) for a in x]) for x in states]
            if len(set(roots)) > 1:
                break
            equal += 1
        seconds = time.perf_counter() - began
        row = {"program": name, "size": size, "steps": steps, "equal": equal}
        yield row | {"root": roots[1].hex(), "seconds": seconds}


def time_products(backend: str, repeats: int, *, is_tiny: bool) -> Iterator[dict[str, Any]]:
    """Yield for each product its bits' agreement, our speed, and torch's where it has a device."""
    rng = np.random.default_rng(0)
    for arithmetic, shape in itertools.product(
        (ORDERED, EXACT), TINY_PRODUCTS if is_tiny else PRODUCTS
    ):
        device = get_backend(backend, arithmetic)
        rows, steps, columns = shape
        a, b = (rng.normal(size=s).astype(np.float32) for s in ((rows, steps), (steps, columns)))
        node = make_product(*shape)
        plan, tensors = device.plan(node, arithmetic), [None, device.admit(a), device.admit(b)]
        expected = get_backend("cpu", arithmetic).plan(node, arithmetic).run([None, a, b], 0)
        found = device.fetch(plan.run(tensors, 0))
        sides: list[Callable[[], object]] = [partial(plan.run, tensors, 0)]
        if has_stock(backend):
            torch.backends.cuda.matmul.allow_tf32 = False
            x, y = (torch.from_numpy(t).cuda() for t in (a, b))
            sides.append(partial(torch.matmul, x, y))
        count = 1 if is_tiny else AT_ONCE
        many = [partial(ask_again, side, count) for side in sides]
        seconds = [s / count for s in time_sides(many, partial(wait, device), repeats)]
        row: dict[str, Any] = {"arithmetic": arithmetic.name, "shape": " x ".join(map(str, shape))}
        row["equal"] = bool(np.array_equal(found, expected))
        row["ours_s"], row["gflops"] = seconds[0], 2e-9 * rows * steps * columns / seconds[0]
        yield row | compare(seconds)


def ask_again(call: Callable[[], object], count: int) -> None:
    """Call something so often, one after the other."""
    for _ in range(count):
        call()


def has_stock(backend: str) -> bool:
    """Whether torch has the device, too."""
    return backend == "cuda" and torch.cuda.is_available()


def wait(device: Any) -> None:
    """Return when the device is idle."""
    device.machine.wait()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(seconds: Sequence[float]) -> dict[str, float]:
    """Return stock's seconds and their ratio to ours, where it was timed."""
    return {"stock_s": seconds[1], "ratio": seconds[1] / seconds[0]} if seconds[1:] else {}


def time_hashes(backend: str, repeats: int, *, is_tiny: bool) -> dict[str, Any]:
    """Return how fast a tensor is hashed, and whether it has the processor's root."""
    device: Any = get_backend(backend, ORDERED)
    array = np.random.default_rng(0).normal(size=HASHED[is_tiny]).astype(np.float32)
    tensor = device.admit(array)
    is_equal = device.compute_top(tensor) == commit_tensor(array).top
    (seconds,) = time_sides([lambda: device.compute_top(tensor)], partial(wait, device), repeats)
    return {"bytes": array.nbytes, "equal": is_equal, "gb_per_s": 1e-9 * array.nbytes / seconds}


def time_steps(
    backend: str, programs: Sequence[str], size: str, repeats: int
) -> Iterator[dict[str, Any]]:
    """Yield the seconds and launches of a step in each way, and eager torch's seconds if there.

    Each way is timed in turns with torch, on a driver of its own, whose memory no other way has. It
    takes as many steps as others, and `equal` says whether it comes to the state of operators one
    by one.
    """
    for name in programs:
        recipe = build(name, size)
        captured = capture(recipe, trust=True)
        stock = list[Callable[[], object]]()
        if has_stock(backend) and isinstance(recipe, TrainingRecipe):
            stock.append(partial(make_stock_step(recipe, device="cuda"), 0))
        rows, roots = list[dict[str, Any]](), list[Digest]()
        for way in WAYS:
            device, state = make_device(backend, captured.program, way), [*captured.initial_state]
            run = make_run(captured, device, state)
            for _ in range(WARM_STEPS):
                run()
            count = count_launches(device, run)
            seconds = time_sides([run, *stock], partial(wait, device), repeats)
            row = {"program": name, "size": size, "way": way, "launches": count}
            rows.append(row | {"ours_s": seconds[0]} | compare(seconds))
            roots.append(compute_state_root(hash_all(state)))
        yield from (
            row | {"equal": root == roots[-1]} for row, root in zip(rows, roots, strict=True)
        )


def make_device(backend: str, program: Program, way: str) -> Any:
    """Return a backend that joins or fuses as a way has it."""
    device: Any = get_backend(backend, program.arithmetic)
    for refused in WAYS[way]:
        setattr(device, refused, lambda *_: False)
    return device


def make_run(captured: Captured, device: Any, state: list[Any]) -> Callable[[], object]:
    """Return a function that runs the first step on a state, which stays on the device."""
    executor = Executor(Preparation(captured.program, device))
    return partial(executor.advance, state, captured.batch(0), 0)


def count_launches(device: Any, run: Callable[[], object]) -> int:
    """Return how often the machine is asked to launch a kernel or a graph."""
    machine, count = device.machine, 0
    before = {name: getattr(machine, name) for name in ("launch", "replay")}

    def counting(call: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: Any) -> None:
            nonlocal count
            others = count
            call(*arguments)
            count = others + 1  # a graph on the emulator launches its kernels one by one

        return counted

    for name, call in before.items():
        setattr(machine, name, counting(call))
    run()
    for name in before:
        delattr(machine, name)
    return count


def time_sides(
    sides: Sequence[Callable[[], object]], wait: Callable[[], None], repeats: int
) -> list[float]:
    """Return the median seconds of each side, which take turns, all warm."""
    turns: list[list[float]] = [[] for _ in sides]
    for turn in range(repeats + 1):
        for side, found in zip(sides, turns, strict=True):
            wait()
            began = time.perf_counter()
            side()
            wait()
            if turn:
                found.append(time.perf_counter() - began)
    return [median(found) for found in turns]


def describe_device(backend: str) -> dict[str, Any]:
    """Return a device's name and its compute capability.

    Raises:
        DeviceError: there is none, or it is too old.
        UsageError: there is no such backend.
    """
    machine = getattr(get_backend(backend, ORDERED), "machine", None)
    capability = getattr(machine, "capability", None)
    return {
        "device": getattr(machine, "name", backend),
        "capability": ".".join(map(str, capability)) if capability else None,
    }


def measure_device(
    backend: str,
    programs: Sequence[str],
    steps: int,
    repeats: int,
    *,
    is_tiny: bool,
    parts: Sequence[str] = PARTS,
) -> dict[str, Any]:
    """Return what is known about a device: some of `PARTS`, or all of them.

    Raises:
        DeviceError: there is none, or it is too old.
        UsageError: there is no such backend.
    """
    sizes = [("tiny", steps)] if is_tiny else [("small", steps), ("full", 1)]
    calls: Mapping[str, Callable[[], Any]] = {
        "products": lambda: list(time_products(backend, repeats, is_tiny=is_tiny)),
        "hashes": lambda: time_hashes(backend, repeats, is_tiny=is_tiny),
        "states": lambda: [
            row for size, count in sizes for row in compare_states(backend, programs, size, count)
        ],
        "steps": lambda: list(time_steps(backend, programs, sizes[-1][0], repeats)),
    }
    return describe_device(backend) | {part: calls[part]() for part in PARTS if part in parts}


def find_results(device: str) -> dict[str, Any]:
    """Return what is known about a device."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return next((row for row in rows if row["device"] == device), {})


def write_results(found: dict[str, Any]) -> None:
    """Put a device's results among those of others, and write the page of all.

    What was known about it before and was not measured again is kept.
    """
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    others = [row for row in known if row["device"] != found["device"]]
    own = find_results(found["device"]) | found
    every = sorted([*others, own], key=lambda row: str(row["device"]))
    RESULTS.write_text(json.dumps(every, indent=1) + "\n")
    lines = [
        "# Devices",
        "",
        "Written by `moot bench device --write`; see [backends.md](../explanation/backends.md).",
        "",
    ]
    for row in every:
        lines += [f"## {row['device']}", ""]
        for part, write in _SECTIONS.items():
            if part in row:
                lines += [*write(row[part]), ""]
    PAGE.write_text("\n".join(lines))


def _write_products(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| product | arithmetic | equal bits | GFLOP/s | stock/ours |"
    yield "|---|---|---|---|---|"
    for p in rows:
        cells = p["shape"], p["arithmetic"], p["equal"], f"{p['gflops']:.0f}", _write_ratio(p)
        yield f"| {' | '.join(map(str, cells))} |"


def _write_ratio(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.2f}" if "ratio" in row else "-"


def _write_hashes(hashes: dict[str, Any]) -> Iterator[str]:
    yield f"Trees: {hashes['gb_per_s']:.1f} GB/s, equal: {hashes['equal']}."


def _write_steps(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| step | way | launches | same state as apart | ours, s | stock/ours |"
    yield "|---|---|---|---|---|---|"
    for s in rows:
        told = (
            f"{s['program']}, {s['size']}",
            s["way"],
            str(s["launches"]),
            str(s.get("equal", "-")),
        )
        yield f"| {' | '.join(told)} | {s['ours_s']:.4f} | {_write_ratio(s)} |"


def _write_states(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| program | steps with the processor's root | root at the end |"
    yield "|---|---|---|"
    for s in rows:
        yield f"| {s['program']}, {s['size']} | {s['equal']} of {s['steps']} | {s['root'][:16]} |"


def _write_tensor(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about a device's tensor cores."""
    yield f"Tensor cores, in `{found['arithmetic']}`:"
    yield ""
    for row in found.get("trial", []):
        wrong = f"{row['wrong']:,} of {row['sums']:,} sums wrong"
        yield f"- the trial, {row['by']}: {wrong}; {row['nearest']}"
    for row in found.get("volume", []):
        yield f"- drawn: {row['blocks']:,} blocks in {row['seconds']:.0f} s, {row['wrong']:,} wrong"
    for part, error in found.get("errors", {}).items():
        yield f"- {part} failed: {error.splitlines()[0]}"
    for part, (head, write) in _TENSOR_TABLES.items():
        if found.get(part):
            yield from ("", f"| {head} |", f"|{'---|' * (head.count('|') + 1)}")
            yield from (f"| {' | '.join(map(str, write(row)))} |" for row in found[part])
    if found.get("states"):
        yield from ("", *_write_states(found["states"]))


def _list_product(row: dict[str, Any]) -> tuple[object, ...]:
    lines = "of columns" if row["turned"] else "of steps"
    return row["shape"], lines, row["equal"], f"{row['tflops']:.1f}", _write_ratio(row)


def _list_tile(row: dict[str, Any]) -> tuple[object, ...]:
    return row["shape"], row["tile"], row["equal"], f"{row['tflops']:.1f}", _write_ratio(row)


def _list_step(row: dict[str, Any]) -> tuple[object, ...]:
    seconds = f"{row['seconds']:.4f}" if "seconds" in row else "failed"
    return row["program"], row["side"], row.get("launches", "-"), seconds


_TENSOR_TABLES: Mapping[str, tuple[str, Callable[[dict[str, Any]], tuple[object, ...]]]] = {
    "products": (
        "product of bfloat16 | second factor | equal bits | TFLOP/s | stock/ours",
        _list_product,
    ),
    "tiles": (
        "product of bfloat16 | tile | TFLOP/s",
        lambda row: (row["shape"], row["tile"], f"{row['tflops']:.1f}"),
    ),
    "bytes": ("product of bytes | tile | equal bits | TOP/s | stock/ours", _list_tile),
    "exact": ("product in `exact` | tile | equal bits | TFLOP/s | stock/ours", _list_tile),
    "steps": ("step in bfloat16 | side | launches | s", _list_step),
}
"""The tables of rows about tensor cores: their heads, and the cells of a row."""


_SECTIONS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "products": _write_products,
    "hashes": _write_hashes,
    "steps": _write_steps,
    "states": _write_states,
    "tensor": _write_tensor,
}
"""The parts of a device's results, as the page has them."""
