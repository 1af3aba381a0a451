"""The layers of the architecture: which package may import which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import list_imports
from tests.quick import only

ROOT = Path(__file__).parents[2]

LAYERS = (
    "offchain.errors",
    "offchain.text",
    "offchain.files",
    "offchain.children",
    "offchain.bounded_json",
    "offchain.bounded_http",
    "offchain.cache",
    "offchain.arithmetic",
    "offchain.native",
    "offchain.commitments",
    "offchain.programs",
    "offchain.datastore",
    "contracts",
    "offchain.chain",
    "offchain.planning",
    "offchain.backends",
    "offchain.backends.cpu",
    "offchain.backends.cuda",
    "offchain.backends.table",
    "offchain.execution",
    "offchain.frontend",
    "offchain.frontend.capture",
    "offchain.frontend.generation",
    "offchain.parallel",
    "offchain.replication",
    "offchain.verifier",
    "offchain.providers",
    "offchain.disputes",
    "offchain.parties",
    "offchain.court",
    "bench",
    "sim",
    "sim.economy",
    "sim.experiments",
    "sim.analysis",
    "sim.report",
    "sim.court",
    "sim.command",
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
        for package in ("bench", "contracts", "offchain", "sim")
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "offchain"
    )
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    return {".".join(parts[path]).removesuffix(".__init__"): path for path in paths}


def imports_of(path: Path) -> set[str]:
    """Return the modules of ours that a module imports when it runs."""
    ours = {"bench", "contracts", "offchain", "sim"}
    found = {name for name in list_imports(path) if name.split(".")[0] in ours}
    return found - {"contracts", "offchain"}


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
        if layer_of(it) < LAYERS.index("offchain.frontend")
    }
    assert not [
        module
        for module, path in lower.items()
        if "torch" in {name.split(".")[0] for name in list_imports(path)}
    ]


def test_a_higher_import_would_be_seen() -> None:
    """The order of the layers is strict where it matters."""
    assert layer_of("sim.market") > layer_of("offchain.disputes.game")
    assert layer_of("contracts.model.leaf") > layer_of("offchain.arithmetic.evaluate")
    assert layer_of("offchain.chain.gas") > layer_of("contracts.model.types")


@pytest.mark.parametrize(
    "module",
    only(
        {"contracts.model.referee", "offchain.execution.executor", "sim.court.page"},
        [
            *("contracts.model.referee", "offchain.commitments.tree", "offchain.programs.decoding"),
            *("offchain.execution.executor", "offchain.verifier.recompute"),
            "offchain.datastore.store",
            *("offchain.court.reducer", "sim.court.page"),
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
