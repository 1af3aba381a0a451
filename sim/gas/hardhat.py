"""Gas statistics in the format that `hardhat test --gas-stats-json` writes.

A contract has a line for each of its functions, over all scenarios together: for tools that compare
such files. Variants of the contract are left out.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any

from moot.contracts.compiler import SOURCE_DIR
from moot.sim.gas.play import Measured
from moot.sim.gas.variants import ARITY_LOG2, Deployment

REFEREE = "referee"
_FOLDER = f"{SOURCE_DIR.parent.name}/{SOURCE_DIR.name}"


def make_stats(measured: Iterable[Measured]) -> dict[str, Any]:
    """Return the object that the file holds; all amounts are in gas, sizes in bytes."""
    deployments: dict[str, Deployment] = {}
    functions: dict[str, list[int]] = {}
    for one in measured:
        if one.scenario.arity_log2 == ARITY_LOG2:
            deployments |= {each.name: each for each in one.deployments}
            for move in one.played:
                assert move.receipt is not None
                functions.setdefault(move.call, []).append(move.receipt.gas_used)
    stats = {name: _summarise(gas) for name, gas in sorted(functions.items())}
    contracts = [
        _make_contract(each, stats if each.name == REFEREE else None)
        for each in sorted(deployments.values(), key=lambda each: each.name)
    ]
    return {
        "contracts": {f"{each['sourceName']}:{each['contractName']}": each for each in contracts}
    }


def _make_contract(deployment: Deployment, functions: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "sourceName": f"{_FOLDER}/{deployment.name}.vy",
        "contractName": deployment.name,
        "proxyChain": [],
        "deployment": _summarise([deployment.gas]) | {"runtimeSize": deployment.runtime_size},
        "functions": functions,
    }


def _summarise(gas: Sequence[int]) -> dict[str, int]:
    return {
        "min": min(gas),
        "max": max(gas),
        "avg": round(fmean(gas)),
        "median": round(median(gas)),
        "count": len(gas),
    }
