"""The layers of the architecture: which package may import which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import list_imports
from tests.quick import only

ROOT = Path(__file__).parents[2]

LAYERS = (
    "moot.offchain.errors",
    "moot.offchain.text",
    "moot.offchain.files",
    "moot.offchain.children",
    "moot.offchain.collection",
    "moot.offchain.bounded_json",
    "moot.offchain.bounded_http",
    "moot.offchain.cache",
    "moot.offchain.plugins",
    "moot.offchain.arithmetic",
    "moot.offchain.native",
    "moot.offchain.commitments",
    "moot.offchain.programs",
    "moot.offchain.datastore",
    "moot.contracts",
    "moot.offchain.chain",
    "moot.offchain.planning",
    "moot.offchain.backends",
    "moot.offchain.backends.cpu",
    "moot.offchain.backends.cuda",
    "moot.offchain.backends.table",
    "moot.offchain.execution",
    "moot.offchain.frontend",
    "moot.offchain.frontend.capture",
    "moot.offchain.frontend.generation",
    "moot.offchain.parallel",
    "moot.offchain.replication",
    "moot.offchain.verifier",
    "moot.offchain.providers",
    "moot.offchain.training",
    "moot.offchain.disputes",
    "moot.offchain.disputes.referee",
    "moot.offchain.disputes.play",
    "moot.offchain.disputes.evidence",
    "moot.offchain.disputes.availability",
    "moot.offchain.disputes.joining",
    "moot.offchain.receipts",
    "moot.offchain.serving",
    "moot.offchain.parties",
    "moot.offchain.record",
    "moot.bench",
    "moot.sim.synthetic",
    "moot.sim",
    "moot.sim.economy",
    "moot.sim.experiments",
    "moot.sim.analysis",
    "moot.sim.report",
    "moot.sim.learning",
    "moot.sim.viewer",
    "moot.sim.live",
    "moot.interrupts",
    "moot.display",
    "moot.tables",
    "moot.recording",
    "moot.replay",
    "moot.results",
    "moot.reporting",
    "moot.cheats",
    "moot.tasks",
    "moot.running",
    "moot.trainings",
    "moot.disputing",
    "moot.pricing",
    "moot.asking",
    "moot.summing",
    "moot.markets",
    "moot.answered",
    "moot.answering",
    "moot.searching",
    "moot.conformance",
    "moot.known_memory",
    "moot.session",
    "moot",
    "moot.command",
)
"""From the lowest to the highest; a module imports from its own layer and from lower ones."""


def layer_of(module: str) -> int:
    """Return the layer of a module, the longest name that fits."""
    fitting = [name for name in LAYERS if module == name or module.startswith(name + ".")]
    return LAYERS.index(max(fitting, key=len))


def modules() -> dict[str, Path]:
    """Return the file of every module of the packages, by the module's name."""
    paths = sorted(
        path
        for package in ("bench", "contracts", "moot/command", "offchain", "sim")
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "offchain" or path.name != "__init__.py"
    )
    paths += sorted((ROOT / "moot").glob("[!_]*.py"))
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    names = {path: ".".join(parts[path]).removesuffix(".__init__") for path in paths}
    return {
        names[path] if parts[path][0] == "moot" else f"moot.{names[path]}": path for path in paths
    }


def imports_of(path: Path) -> set[str]:
    """Return the modules of ours that a module imports when it runs."""
    found = {name for name in list_imports(path) if name.split(".")[0] == "moot"}
    return found - {"moot.contracts", "moot.offchain"}


def test_imports_flow_one_way() -> None:
    """No module imports from a higher layer."""
    above = {
        (module, name)
        for module, path in modules().items()
        for name in imports_of(path)
        if layer_of(name) > layer_of(module)
    }
    assert not above


def test_torch_is_above_programs() -> None:
    """No module below the front end imports torch."""
    lower = {
        it: path
        for it, path in modules().items()
        if layer_of(it) < LAYERS.index("moot.offchain.frontend")
    }
    assert not [
        module
        for module, path in lower.items()
        if "torch" in {name.split(".")[0] for name in list_imports(path)}
    ]


def list_devices() -> list[str]:
    """Return the names of the packages of devices: each is a folder beside the port."""
    folder = ROOT / "offchain" / "backends"
    return [f"moot.offchain.backends.{path.parent.name}" for path in folder.glob("*/__init__.py")]


def find_named(devices: list[str]) -> set[tuple[str, str]]:
    """Return (module, device) of each import that names a device from outside of its package."""
    return {
        (module, device)
        for module, path in modules().items()
        for name in list_imports(path)
        for device in devices
        if f"{name}.".startswith(f"{device}.") and not f"{module}.".startswith(f"{device}.")
    }


def test_only_the_table_names_a_device() -> None:
    """Whoever computes asks the table for a backend, and knows of the port alone."""
    assert len(list_devices()) > 1
    assert {module for module, _ in find_named(list_devices())} == {"moot.offchain.backends.table"}


def test_a_device_that_is_named_would_be_seen() -> None:
    """What an import names is found, whoever imports it."""
    found = {module for module, _ in find_named(["moot.offchain.backends.port"])}
    assert {"moot.offchain.execution.executor", "moot.offchain.backends.cpu.backend"} <= found


def test_modules_of_the_root_have_layers() -> None:
    """Each module beside the packages is named: none stands where all others would do."""
    assert {f"moot.{path.stem}" for path in (ROOT / "moot").glob("[!_]*.py")} <= set(LAYERS)


def test_a_higher_import_would_be_seen() -> None:
    """The order of the layers is strict where it matters."""
    assert layer_of("moot.sim.economy.market") > layer_of("moot.offchain.disputes.play.game")
    assert layer_of("moot.contracts.model.leaf") > layer_of("moot.offchain.arithmetic.evaluate")
    assert layer_of("moot.offchain.chain.gas") > layer_of("moot.contracts.model.types")


@pytest.mark.parametrize(
    "module",
    only(
        {
            "moot.contracts.model.referee",
            "moot.offchain.execution.executor",
            "moot.sim.viewer.page",
        },
        [
            *(
                "moot.contracts.model.referee",
                "moot.offchain.commitments.tree",
                "moot.offchain.programs.decoding",
            ),
            *("moot.offchain.execution.executor", "moot.offchain.verifier.recompute"),
            "moot.offchain.datastore.store",
            *("moot.offchain.record.reducer", "moot.sim.viewer.page"),
        ],
    ),
)
def test_the_law_knows_no_torch_and_no_chain(module: str) -> None:
    """The referee's model, the commitments and the programs load neither torch nor web3."""
    code = f"import {module}, sys; print(*sorted({{'torch', 'web3', 'eth'}} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
