"""The table of the kinds of chains: what `kind` of a chain's file may be, and its fees."""

from collections.abc import Mapping
from types import MappingProxyType

from moot.sim.chains.kinds.arbitrum import Arbitrum
from moot.sim.chains.kinds.l1 import LayerOne
from moot.sim.chains.kinds.op_stack import OpStack

AnyFees = LayerOne | OpStack | Arbitrum

KINDS: Mapping[str, type[AnyFees]] = MappingProxyType(
    {"l1": LayerOne, "op-stack": OpStack, "arbitrum": Arbitrum}
)
