"""The methods by which torch's own kernels come to the same bits on unlike hardware, by name."""

from collections.abc import Mapping

from moot.offchain.errors import UsageError
from moot.offchain.replication import proven
from moot.offchain.replication.orders import Train
from moot.offchain.replication.published import selection, training

METHODS: Mapping[str, Train] = {
    training.METHOD: training.train,
    selection.METHOD: selection.try_layers,
    proven.METHOD: proven.train,
}
"""How a worker trains by each method."""


def find_method(name: str) -> Train:
    """Return how a worker trains by a method; `UsageError` for an unknown one."""
    if name not in METHODS:
        raise UsageError.unknown("method", name, METHODS)
    return METHODS[name]
