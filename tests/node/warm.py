"""Imported by the process that the providers' are forked from: what all would load first."""

import offchain.chain.codec
import offchain.chain.jsonrpc
from sim.paper import make_task
from tests.node.table import SIZE

__all__ = ["offchain"]

# Loads the compiled hash, which takes longer than all that a provider does between two blocks.
make_task(SIZE).commitment.tree  # noqa: B018 - computed when it is looked at
