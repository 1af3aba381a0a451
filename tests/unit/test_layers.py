"""The layers of the architecture: which package may import which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import list_imports

ROOT = Path(__file__).parents[2]

LAYERS = (
    "offchain.errors",
    "offchain.files",
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


def modules() -> list[Path]:
    """Return every module of the packages."""
    return sorted(
        path
        for package in ("bench", "contracts", "offchain", "sim")
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "offchain"
    )


def imports_of(path: Path) -> set[str]:
    """Return the modules of ours that a module imports when it runs."""
    ours = {"bench", "contracts", "offchain", "sim"}
    found = {name for name in list_imports(path) if name.split(".")[0] in ours}
    return found - {"contracts", "offchain"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_flow_one_way(path: Path) -> None:
    """No module imports from a higher layer."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    own = layer_of(module)
    above = {name for name in imports_of(path) if layer_of(name) > own}
    assert not above


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_torch_is_above_programs(path: Path) -> None:
    """No module below the front end imports torch."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    imports = {name.split(".")[0] for name in list_imports(path)}
    assert layer_of(module) >= LAYERS.index("offchain.frontend") or "torch" not in imports


def test_a_higher_import_would_be_seen() -> None:
    """The order of the layers is strict where it matters."""
    assert layer_of("sim.market") > layer_of("offchain.disputes.game")
    assert layer_of("contracts.model.leaf") > layer_of("offchain.arithmetic.evaluate")
    assert layer_of("offchain.chain.gas") > layer_of("contracts.model.types")


@pytest.mark.parametrize(
    "module",
    [
        *("contracts.model.referee", "offchain.commitments.tree", "offchain.programs.decoding"),
        *("offchain.execution.executor", "offchain.verifier.recompute"),
        "offchain.datastore.store",
        *("offchain.court.reducer", "sim.court.page"),
    ],
)
def test_the_law_knows_no_torch_and_no_chain(module: str) -> None:
    """The referee's model, the commitments and the programs load neither torch nor web3."""
    code = f"import {module}, sys; print(*sorted({{'torch', 'web3', 'eth'}} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
