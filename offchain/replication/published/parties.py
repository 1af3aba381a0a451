"""The roundings of a trainer, which writes them to a log, and of an auditor, which obeys it."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from moot.offchain.replication.published.kernel import round_and_mark
from moot.offchain.replication.published.logs import (
    DOWN,
    STREAMS,
    UNLOGGED,
    UP,
    Codes,
    Packer,
    StepLog,
    Unpacker,
)
from moot.offchain.replication.published.rounding import step
from moot.offchain.replication.published.thresholds import Thresholds, is_logged


def round_and_classify(values: Tensor, bits: int, threshold: float) -> tuple[Tensor, Tensor]:
    """Return values rounded by `round_to_bits`, and their codes by `classify`, in one pass."""
    flat = values.contiguous().view(-1).numpy()
    results = round_and_mark(flat, bits, threshold)
    shape = tuple(values.shape)
    rounded, codes = (torch.from_numpy(result.reshape(shape)) for result in results)
    return rounded, codes


def classify(values: Tensor, rounded: Tensor, threshold: float) -> Tensor:
    """Return the codes of roundings, uint8 of the same shape: of those not logged, `UNLOGGED`."""
    logged = is_logged(values, rounded, threshold)
    direction = (rounded > values).to(torch.uint8).mul_(UP)
    return direction.masked_fill_(~logged, UNLOGGED)


class Behaviour(Protocol):
    """What a trainer does with its roundings before it logs them."""

    def choose(self, codes: Tensor) -> Tensor:
        """Return the codes that the trainer follows, given those of honest roundings.

        What is not logged stays so, and what is logged stays logged.
        """


class Stream:
    """The roundings of one direction of a step.

    Attributes:
        elements: how many elements were rounded.
        logged: how many of them lie in this party's own logging region.
        corrected: how many were rounded to the other neighbour than the nearest one.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self.elements = self.logged = self.corrected = 0
        self._thresholds = thresholds

    def round(self, values: Tensor, layer: str) -> Tensor:
        """Return binary64 values of a layer, rounded."""
        values = values.detach()
        bits, threshold = self._thresholds.bits, self._thresholds.find(layer)
        rounded, codes = round_and_classify(values, bits, threshold)
        self.elements += codes.numel()
        self.logged += codes.numel() - int(torch.count_nonzero(codes == UNLOGGED))
        followed = self._follow(codes)
        # Only the two directions differ in both bits: DOWN is 0, UNLOGGED 1 and UP 2.
        turned = (codes ^ followed) == (DOWN ^ UP)
        count = int(torch.count_nonzero(turned))
        if count:
            self.corrected += count
            upwards = followed[turned] == UP
            rounded[turned] = step(rounded[turned], bits, upwards=upwards)
        return rounded

    def _follow(self, codes: Tensor) -> Tensor:
        """Return the directions to follow, given those of this party's own roundings."""
        raise NotImplementedError


class TrainerStream(Stream):
    """A trainer's roundings: each is logged."""

    def __init__(self, thresholds: Thresholds, behaviour: Behaviour | None = None) -> None:
        super().__init__(thresholds)
        self._packer = Packer()
        self._behaviour = behaviour

    def _follow(self, codes: Tensor) -> Tensor:
        followed = self._behaviour.choose(codes) if self._behaviour else codes
        self._packer.add(followed.contiguous().numpy().reshape(-1))
        return followed

    def finish(self) -> tuple[Codes, int]:
        """Return the packed codes and their number."""
        return self._packer.finish(), self._packer.count


class AuditorStream(Stream):
    """An auditor's roundings: where it would log the opposite of the trainer's, it does as that."""

    def __init__(self, thresholds: Thresholds, log: StepLog, name: str) -> None:
        super().__init__(thresholds)
        self._unpacker = Unpacker(*log.streams[name], f"the stream {name}")

    def _follow(self, codes: Tensor) -> Tensor:
        logged = self._unpacker.take(codes.numel())
        return torch.from_numpy(np.ascontiguousarray(logged)).reshape(codes.shape)

    def finish(self) -> None:
        """Refuse a log with more codes than were rounded."""
        self._unpacker.finish()


def make_log(run: bytes, number: int, streams: dict[str, TrainerStream]) -> StepLog:
    """Return the log of a step that a trainer has finished."""
    return StepLog(run, number, {name: streams[name].finish() for name in STREAMS})
