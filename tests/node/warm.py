"""The imports that all providers need, loaded once by the process that theirs fork from."""

import moot.offchain.chain.codec
import moot.offchain.chain.jsonrpc
from moot.sim.synthetic.products import make_task
from tests.node.table import SIZE

__all__ = ["moot"]

# Loads the compiled hash, which takes longer than all that a provider does between two blocks.
make_task(SIZE).commitment.tree  # noqa: B018 - computed when it is looked at
