"""The measurement of a device's tensor cores, on the emulator: what it finds, and survives."""

import json
from pathlib import Path
from typing import Any

import pytest

from moot.bench import device, tensor_cores
from moot.bench.tensor_cores import PARTS, is_right, measure_tensor_cores
from moot.offchain.arithmetic.tensor.blocks import AMPERE
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.exact import tiles as exact_tiles
from moot.offchain.backends.cuda.tensor import bytes_trial, examination
from moot.offchain.backends.cuda.tensor.sums import GROUP_WAYS
from moot.offchain.backends.cuda.tensor.tiles import BYTE_CYCLES, STEP_CYCLES, GroupTile
from moot.offchain.backends.table import BACKENDS
from moot.offchain.errors import DeviceError

SMALL = list(STEP_CYCLES)[-2:]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out programs, which take long to capture, and large tiles."""
    monkeypatch.setattr(examination, "list_tiles", lambda **_: SMALL)
    monkeypatch.setattr(tensor_cores, "SIZES", {True: ()})
    monkeypatch.setattr(tensor_cores, "STATES", {True: ()})


def measure(seconds: float = 100, **known: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what is found with the emulator, and the lines that were told."""
    lines: list[str] = []
    found = measure_tensor_cores(
        "cuda-emulator", seconds, 1, is_tiny=True, tell=lines.append, **known
    )
    return found, lines


def test_tensor_cores_are_measured_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks and products are compared; the page says so beside what was known of the device."""
    found, lines = measure()
    assert found["done"] == [*PARTS]
    assert is_right(found)
    (trial,), (volume,) = found["trial"], found["volume"]
    assert trial["by"] == "mma.sync"
    assert trial["nearest"] == "blocks of 16 products and 25 bits, ascending, have them"
    assert volume["blocks"] >= 10_000
    assert [row["equal"] for row in found["products"]] == [True, True]
    assert len({row["tile"] for row in found["tiles"]}) == len(SMALL)
    assert [row["equal"] for row in found["exact"]] == [True]
    assert len(lines) == 5 + len(SMALL)
    monkeypatch.setattr(device, "RESULTS", tmp_path / "devices.json")
    monkeypatch.setattr(device, "PAGE", tmp_path / "devices.md")
    hashes = {"gb_per_s": 2.0, "equal": True}
    for row in ({"hashes": hashes}, {"tensor": found}):
        device.write_results({"device": "A", **row})
    assert json.loads((tmp_path / "devices.json").read_text())[0].keys() >= {"hashes", "tensor"}
    page = (tmp_path / "devices.md").read_text()
    assert "Trees: 2.0 GB/s" in page
    assert "0 of 295,680 sums wrong; blocks of 16 products" in page
    assert "| 130 x 40 x 70 | of columns | True |" in page


def test_both_instructions_of_hopper_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where warp groups multiply, the trial, drawn blocks and tiles have rows of theirs."""
    make = Emulator.__init__
    monkeypatch.setattr(Emulator, "__init__", lambda machine: make(machine, capability=(9, 0)))
    tiles = {True: [SMALL[-1], GroupTile(1, 64)], False: SMALL[-1:]}
    monkeypatch.setattr(examination, "list_tiles", lambda *, has_groups: tiles[has_groups])
    few = dict([*BYTE_CYCLES.items()][-1:])
    for module in (examination, bytes_trial, exact_tiles):
        monkeypatch.setattr(module, "BYTE_CYCLES", few)
    found, _ = measure()
    assert is_right(found)
    by = [row["by"].split(",")[0] for row in found["trial"]]
    assert by == ["mma.sync", *["wgmma"] * len(GROUP_WAYS), *["wgmma of bytes"] * 2]
    assert [row["equal"] for row in (*found["bytes"], *found["exact"])] == [True] * 3
    assert not any(row["wrong"] for row in found["trial"])
    for part in ("tiles", "exact"):
        assert [row["tile"].split(",")[0] for row in found[part]] == ["mma.sync", "wgmma"]


def test_a_part_that_fails_says_why_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done is not done again; what failed is."""

    def fail(*_: object) -> None:
        raise DeviceError("the device is gone")

    kept: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(examination, "draw_numbers", fail)
        found, _ = measure(keep=lambda row: kept.append(len(row["done"])))
    assert found["errors"] == {"volume": "DeviceError: the device is gone"}
    assert found["done"] == [part for part in PARTS if part != "volume"]
    assert kept == sorted(kept)
    assert not is_right(found)
    again, lines = measure(known=found)
    assert again["done"] == [*found["done"], "volume"]
    assert is_right(again)
    assert [line.split(":")[0] for line in lines] == ["volume"]


def test_nothing_begins_without_time() -> None:
    """What is left out is measured the next time."""
    found, lines = measure(seconds=0)
    assert found["done"] == []
    assert lines == [f"{part}: no more time" for part in PARTS]


def test_a_wrong_device_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks are found, its wrong sums counted, and its products refused."""
    assert "cuda-emulator" in BACKENDS
    make = Emulator.__init__

    def make_wrong(machine: Emulator) -> None:
        make(machine, block=AMPERE)

    monkeypatch.setattr(Emulator, "__init__", make_wrong)
    found, _ = measure()
    assert found["trial"][0]["nearest"].startswith("blocks of 8 products and 24 bits, ascending")
    assert found["volume"][0]["wrong"] > 1000
    assert "does not compute hopper on its tensor cores" in found["errors"]["products"]
    assert not is_right(found)
