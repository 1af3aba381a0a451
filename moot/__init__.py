"""Moot: a moot court for machine learning, in Python.

    import moot

    task = moot.Task(moot.capture(recipe), steps=16, checkpoint_every=4)
    honest, liar = moot.run(task), moot.run(task, moot.cheats.WrongOutput(step=11))
    dispute = moot.dispute(task, [honest, liar])
    dispute.verdict.located.scalar, dispute.gas.by_stage
    moot.simulate("weak-audit", bond_eth=0.5).to_pandas()

Every name is imported when it is first asked for, so that this module is loaded at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moot import cheats
    from moot.answered import Design, Sensitivity, Twins
    from moot.answering import design, sensitivity, twins
    from moot.conformance import check_cheat, check_strategy
    from moot.disputing import Dispute, dispute
    from moot.markets import Results, simulate, sweep
    from moot.offchain.chain import Chain, connect
    from moot.offchain.errors import CaptureError, MootError, UsageError
    from moot.offchain.frontend.capture import Captured
    from moot.offchain.frontend.interop import (
        from_loop,
        from_pretrained,
        from_trainer,
        to_state_dict,
    )
    from moot.offchain.frontend.quantization import unwrap
    from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
    from moot.offchain.parties.policy import Policy
    from moot.offchain.providers.behaviour import Behaviour
    from moot.pricing import Price, Quote, price
    from moot.results import Gas, Ledger, Located, Move, Operator, Scalar, Verdict
    from moot.running import Run, run
    from moot.searching import Search, search_dispute
    from moot.sim.economy.conformance import Finding
    from moot.sim.economy.mechanisms.base import Mechanism
    from moot.sim.economy.strategies.base import Strategy
    from moot.sim.learning.environment import MarketEnvironment
    from moot.sim.learning.single import MarketGym
    from moot.sim.learning.strategy import PolicyStrategy
    from moot.tasks import Task, capture
    from moot.trainings import Audit, Training, audit, train

    __version__: str

_PLACES = {
    "Audit": "moot.trainings",
    "Behaviour": "moot.offchain.providers.behaviour",
    "CaptureError": "moot.offchain.errors",
    "Captured": "moot.offchain.frontend.capture",
    "Chain": "moot.offchain.chain",
    "Design": "moot.answered",
    "Dispute": "moot.disputing",
    "Finding": "moot.sim.economy.conformance",
    "Gas": "moot.results",
    "InferenceRecipe": "moot.offchain.frontend.recipe",
    "Ledger": "moot.results",
    "Located": "moot.results",
    "MarketEnvironment": "moot.sim.learning.environment",
    "MarketGym": "moot.sim.learning.single",
    "Mechanism": "moot.sim.economy.mechanisms.base",
    "MootError": "moot.offchain.errors",
    "Move": "moot.results",
    "Operator": "moot.results",
    "Policy": "moot.offchain.parties.policy",
    "PolicyStrategy": "moot.sim.learning.strategy",
    "Price": "moot.pricing",
    "Quote": "moot.pricing",
    "Results": "moot.markets",
    "Run": "moot.running",
    "Scalar": "moot.results",
    "Search": "moot.searching",
    "Sensitivity": "moot.answered",
    "Strategy": "moot.sim.economy.strategies.base",
    "Task": "moot.tasks",
    "Training": "moot.trainings",
    "TrainingRecipe": "moot.offchain.frontend.recipe",
    "Twins": "moot.answered",
    "UsageError": "moot.offchain.errors",
    "Verdict": "moot.results",
    "audit": "moot.trainings",
    "capture": "moot.tasks",
    "cheats": "moot.cheats",
    "check_cheat": "moot.conformance",
    "check_strategy": "moot.conformance",
    "connect": "moot.offchain.chain",
    "design": "moot.answering",
    "dispute": "moot.disputing",
    "from_loop": "moot.offchain.frontend.interop",
    "from_pretrained": "moot.offchain.frontend.interop",
    "from_trainer": "moot.offchain.frontend.interop",
    "price": "moot.pricing",
    "run": "moot.running",
    "search_dispute": "moot.searching",
    "sensitivity": "moot.answering",
    "simulate": "moot.markets",
    "sweep": "moot.markets",
    "to_state_dict": "moot.offchain.frontend.interop",
    "train": "moot.trainings",
    "twins": "moot.answering",
    "unwrap": "moot.offchain.frontend.quantization",
}
"""Each public name, and the module that has it; no module is called as a name that it has."""

__all__ = [
    "Audit",
    "Behaviour",
    "CaptureError",
    "Captured",
    "Chain",
    "Design",
    "Dispute",
    "Finding",
    "Gas",
    "InferenceRecipe",
    "Ledger",
    "Located",
    "MarketEnvironment",
    "MarketGym",
    "Mechanism",
    "MootError",
    "Move",
    "Operator",
    "Policy",
    "PolicyStrategy",
    "Price",
    "Quote",
    "Results",
    "Run",
    "Scalar",
    "Search",
    "Sensitivity",
    "Strategy",
    "Task",
    "Training",
    "TrainingRecipe",
    "Twins",
    "UsageError",
    "Verdict",
    "audit",
    "capture",
    "cheats",
    "check_cheat",
    "check_strategy",
    "connect",
    "design",
    "dispute",
    "from_loop",
    "from_pretrained",
    "from_trainer",
    "price",
    "run",
    "search_dispute",
    "sensitivity",
    "simulate",
    "sweep",
    "to_state_dict",
    "train",
    "twins",
    "unwrap",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - takes longer than all of this

        return version("moot")
    if name not in _PLACES:
        raise AttributeError(f"module 'moot' has no attribute {name!r}")
    module = import_module(_PLACES[name])
    value = module if _PLACES[name] == f"moot.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, "__version__"})
