"""`moot bench` on sizes too small to time: the rows, the tables and the JSON."""

import json
from collections.abc import Sequence
from math import isclose, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moot.bench import convolutions, device, products
from moot.bench.arithmetics import list_rows
from moot.bench.models import make_recipe
from moot.bench.profile import FUSED, make_tables, profile_step
from moot.bench.shapes import CONVOLUTIONS, PRODUCTS, TINY_CONVOLUTIONS, Layer, list_products
from moot.bench.sides import Comparison, check_close, compare
from moot.bench.steps import OurTraining, measure_steps
from moot.bench.suite import GROUPS
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.cuda import driver
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.errors import MootError
from moot.offchain.planning.schedule import find_ancestors
from tests.end_to_end.command import moot

SHORT = ("--tiny", "--repeats", "1", "--threads", "1,2")


def measure(*arguments: str) -> dict[str, Any]:
    """Return the object that `moot bench --json` prints."""
    done = moot("bench", *arguments, "--json")
    assert done.status == 0
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check_rows(told: dict[str, Any], groups: Sequence[str]) -> None:
    """Check what is true of the rows of every benchmark against stock torch."""
    rows = told["rows"]
    assert {row["group"] for row in rows} == set(groups) == set(told["groups"])
    assert {row["threads"] for row in rows} == {1, 2}
    for row in rows:
        assert isclose(row["ratio"], row["stock_s"] / row["ours_s"])
    mean = prod(row["ratio"] for row in rows) ** (1 / len(rows))
    assert isclose(told["geometric_mean"], mean)


@pytest.mark.slow
def test_operators_are_measured_in_groups() -> None:
    """Each group has its rows, for every number of threads, and the overall mean is theirs."""
    told = measure("ops", *SHORT)
    check_rows(told, tuple(GROUPS))
    for group, summary in told["groups"].items():
        ratios = [row["ratio"] for row in told["rows"] if row["group"] == group]
        assert isclose(summary["geometric_mean"], prod(ratios) ** (1 / len(ratios)))
        assert summary["least"] == min(ratios)


@pytest.mark.slow
def test_products_name_the_best_library() -> None:
    """Of a product, the best library is the fastest of all that were tried, stock among them."""
    told = measure("ops", "--only", "matmul", "--model", "bert", *SHORT)
    check_rows(told, ("matmul",))
    for row in told["rows"]:
        assert row["name"].startswith("bert ")
        assert set(row["libraries_s"]) == {"stock", "openblas", "onednn"}
        assert row["best_s"] == row["libraries_s"][row["best"]] == min(row["libraries_s"].values())
        assert isclose(row["best_ratio"], row["best_s"] / row["ours_s"])
    assert "best_geometric_mean" in told["groups"]["matmul"]


@pytest.mark.slow
def test_steps_count_commitments_and_memory() -> None:
    """A step counts a tenth of a commitment, and each side's memory is that of its own process."""
    told = measure("step", "--model", "gpt2", *SHORT)
    check_rows(told, ("step",))
    for row in told["rows"]:
        assert isclose(row["ours_s"], row["step_s"] + row["commitment_s"] / 10)
        assert isclose(row["memory_ratio"], row["ours_peak_bytes"] / row["stock_peak_bytes"])
        assert min(row["ours_peak_bytes"], row["stock_peak_bytes"]) > 1 << 26


@pytest.mark.slow
def test_steps_say_how_far_they_are() -> None:
    """Before each part, memory, a side or a number of threads, all that are done are told."""
    told: list[tuple[str, int, int]] = []
    rows = measure_steps(["gpt2"], [1, 2], 1, lambda *said: told.append(said), is_tiny=True)
    assert len(list(rows)) == 2
    assert told == [("gpt2", done, 6) for done in range(6)]


@pytest.mark.slow
def test_steps_are_measured_beside_stock_at_its_best() -> None:
    """The best of stock torch is the fastest of all its ways, channels last only for images."""
    told = measure("step", "--model", "resnet", "--model", "bert", "--best", *SHORT)
    check_rows(told, ("step",))
    for row in told["rows"]:
        ways = {"stock", "fused", "compiled"}
        images = {"channels last", "compiled, channels last"} if row["name"] == "resnet" else set()
        assert set(row["libraries_s"]) == ways | images
        assert row["libraries_s"]["stock"] == row["stock_s"]
        assert row["best_s"] == row["libraries_s"][row["best"]] == min(row["libraries_s"].values())


def test_hashing_is_measured_at_both_chunk_sizes() -> None:
    """Hashing is told in GB/s, at the commitments' chunk size and at 1 KiB."""
    rows = measure("hash", *SHORT)["rows"]
    assert [(row["threads"], row["gb_per_s"] > 0) for row in rows] == [(1, True), (2, True)] * 2
    assert ["commitments" in row["name"] for row in rows] == [True, True, False, False]


@pytest.mark.slow
def test_disputes_cost_steps() -> None:
    """Honesty is told over bare steps, and a challenge in steps, of a run with an interval."""
    (row,) = measure(
        "dispute", "--program", "gpt2", "--tiny", "--repeats", "1", "--threads", "2",
        "--steps", "5", "--checkpoint-every", "3",
    )["rows"]  # fmt: skip
    assert (row["program"], row["size"], row["steps"], row["threads"]) == ("gpt2", "tiny", 5, 2)
    assert isclose(row["run_over_steps"], row["run_s"] / (5 * row["step_s"]))
    assert isclose(row["trace_steps"], row["trace_s"] / row["step_s"])
    assert isclose(row["hash_gb_per_s"], row["state_bytes"] / row["hash_s"] / 1e9)
    assert 0 < row["answers_s"] <= row["most_answers_s"]
    assert row["interval_s"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("hash",),
        pytest.param(("ops", "--only", "other"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "pointwise"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "indices"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "layers"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "generation"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "int8"), marks=pytest.mark.slow),
        pytest.param(("ops", "--only", "serving"), marks=pytest.mark.slow),
        pytest.param(("dispute", "--program", "resnet", "--steps", "1"), marks=pytest.mark.slow),
    ],
)
def test_people_get_a_table(arguments: Sequence[str]) -> None:
    """Without --json a table is printed."""
    done = moot("bench", *arguments, *SHORT)
    assert done.status == 0
    assert "threads" in done.stdout
    assert not done.stdout.lstrip().startswith("{")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ops", "--model", "gpt3"),
        ("step", "--model", "vit"),
        ("dispute", "--program", "mlp"),
        ("dispute", "--steps", "2", "--checkpoint-every", "3", "--tiny"),
        ("ops", "--only", "matmuls"),
        ("hash", "--threads", "0"),
        ("hash", "--threads", "one"),
        ("hash", "--repeats", "0"),
    ],
)
def test_what_does_not_exist_is_refused(arguments: Sequence[str]) -> None:
    """An unknown model or group, or no positive number of threads or turns, is a bad argument."""
    done = moot("bench", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("moot: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_device_is_compared_with_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits and speed are said of products and of training; a page has all devices, each once."""
    told = measure(
        *("device", "--backend", "cuda-emulator", "--tiny", "--program", "mlp", "--steps", "2")
    )
    assert told["device"] == Emulator.name
    assert all(row["equal"] for row in told["products"])
    assert {row["arithmetic"] for row in told["products"]} == {"ordered", "exact"}
    assert told["hashes"]["equal"]
    launches = {row["way"]: row["launches"] for row in told["steps"]}
    assert [*launches] == ["graphs", "regions", "apart"]
    assert 2 * launches["regions"] < launches["apart"]
    assert launches["graphs"] == 1
    assert all(row["equal"] for row in told["steps"])
    assert [(row["program"], row["equal"]) for row in told["states"]] == [("mlp", 2)]
    monkeypatch.setattr(device, "RESULTS", tmp_path / "devices.json")
    monkeypatch.setattr(device, "PAGE", tmp_path / "devices.md")
    for name in ("B", "A", "B"):
        device.write_results(told | {"device": name})
    known = json.loads((tmp_path / "devices.json").read_text())
    assert [row["device"] for row in known] == ["A", "B"]
    assert "| mlp, tiny | 2 of 2 |" in (tmp_path / "devices.md").read_text()


@pytest.mark.slow
def test_tensor_cores_are_compared_with_the_processor() -> None:
    """Blocks, products, and the states of training are, and steps are timed."""
    told = measure("device", "--backend", "cuda-emulator", "--tiny", "--only", "tensor")
    assert told.keys() == {"device", "capability", "tensor"}
    assert {row["side"] for row in told["tensor"]["steps"]} >= {"graphs", "regions"}
    assert [row["equal"] for row in told["tensor"]["states"]] == [1]


@pytest.mark.skipif(driver.is_here(), reason="there is an NVIDIA driver")
def test_without_a_device_one_line_says_so() -> None:
    """Nothing is measured on something else in silence."""
    done = moot("bench", "device")
    assert done.status != 0
    assert "there is no NVIDIA driver" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_gradients_of_a_layer_have_its_shapes() -> None:
    """A layer's three products, run in turn, are autograd's, for both ways to store weights."""
    generator = torch.Generator().manual_seed(1)
    for is_transposed in (False, True):
        layer = Layer("layer", 3, 4, 5, is_transposed=is_transposed)
        x = torch.randn(3, 4, generator=generator, requires_grad=True)
        weights = torch.randn((5, 4) if is_transposed else (4, 5), generator=generator)
        weights.requires_grad_()
        y = x @ (weights.mT if is_transposed else weights)
        gradient = torch.randn(3, 5, generator=generator)
        wanted = [y, *torch.autograd.grad(y, [x, weights], gradient)]
        factors = [(x, weights), (gradient, weights)]
        factors.append((gradient, x) if is_transposed else (x, gradient))
        for product, (a, b), result in zip(list_products(layer), factors, wanted, strict=True):
            found = products.MULTIPLY[product.layout](a, b)
            assert tuple(found.shape) == (product.rows, product.columns)
            torch.testing.assert_close(found, result)


def test_all_of_resnet_is_measured() -> None:
    """The convolutions are those of ResNet-50, each once."""
    from transformers import ResNetConfig, ResNetForImageClassification  # noqa: PLC0415 - heavy

    found = set()

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], _: object) -> None:
        assert isinstance(module, torch.nn.Conv2d)
        found.add(
            (
                module.in_channels,
                module.out_channels,
                module.kernel_size[0],
                module.stride[0],
                inputs[0].shape[-1],
            )
        )

    with torch.device("meta"):
        model: Any = ResNetForImageClassification(ResNetConfig())
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(note)
    model.eval()(torch.zeros(1, 3, 224, 224, device="meta"))
    measured = [(c.channels, c.filters, c.window, c.stride, c.side) for c in CONVOLUTIONS]
    assert set(measured) == found
    assert len(measured) == len(found)
    directions = sum(3 if c.has_input_gradient else 2 for c in TINY_CONVOLUTIONS)
    assert len(list(convolutions.list_comparisons(is_tiny=True))) == 2 * directions


def test_models_have_products_in_every_direction() -> None:
    """Every model's layers give a forward product and two gradients of the same cost."""
    for layers in PRODUCTS.values():
        for layer in layers:
            costs = {p.batch * p.rows * p.inner * p.columns for p in list_products(layer)}
            assert costs == {layer.batch * layer.rows * layer.inner * layer.columns}


@pytest.mark.slow
def test_a_profile_covers_the_step() -> None:
    """Every operator that a step runs is in its profile once, by its kind."""
    ours = OurTraining(make_recipe("gpt2", is_tiny=True), 1)
    program, found = ours.executor.program, profile_step(ours)
    needed = find_ancestors(program, range(program.first_sink, len(program.nodes)))
    assert sum(spent.operators for spent in found) == len(needed)
    assert {"contract", "gather", FUSED} <= {spent.kind for spent in found}
    assert [spent.seconds for spent in found] == sorted((s.seconds for s in found), reverse=True)
    kinds, longest = make_tables(found)
    assert kinds.row_count == len({spent.kind for spent in found})
    assert longest.row_count == min(30, len(found))


def test_wrong_results_are_refused() -> None:
    """A side that computes something else is not measured, NaN included."""
    right = np.ones(3, np.float32)
    check_close("it", [right + np.float32(1e-5)], [right])
    for wrong in (right * 2, right * np.float32(np.nan)):
        with pytest.raises(MootError, match="away from stock"):
            check_close("it", [wrong], [right])
    comparison = Comparison("group", "name", "shape", lambda: right * 2, lambda: right)
    with pytest.raises(MootError, match="name shape, ours"):
        next(compare(comparison, [1], 1))


@pytest.mark.slow
def test_steps_are_timed_in_every_arithmetic() -> None:
    """A table has a row for each program and number of threads, with a time for every side."""
    head, *rows = list_rows(["mlp"], "tiny", [1, 2], 1)
    columns = head.splitlines()[0].count("|")
    assert all(f"`{name}`" in head for name in ARITHMETICS)
    assert [row.count("|") for row in rows] == [columns] * 2
    assert [row.split(" | ")[1] for row in rows] == ["1", "2"]


@pytest.mark.slow
def test_jobs_that_nobody_claims_in_time_are_counted() -> None:
    """With no time to commit nobody does, and the bench ends."""
    options = ("--providers", "2", "--jobs", "2", "--block-seconds", "0.3", "--commit-blocks", "2")
    told = measure("parties", *options)
    assert [job["status"] for job in told["jobs"]] == ["open", "open"]
    assert told["missed_claims"] == 4


@pytest.mark.slow
def test_what_it_costs_to_be_a_party() -> None:
    """The honest of two providers asks, sends, wins the job, and nobody misses a deadline."""
    told = measure("parties", "--providers", "2", "--block-seconds", "0.3")
    assert [row["party"] for row in told["parties"]] == ["provider-1", "provider-2"]
    for row in told["parties"]:
        assert row["idle_requests_a_block"] > 0
        assert row["transactions"] > 3
        assert row["gas"] > 21_000 * row["transactions"]
    (job,) = told["jobs"]
    assert (job["status"], job["meetings"], job["defeated"]) == ("won", 1, 1)
    assert told["missed_claims"] == 0
