"""A party's training in binary64: the trainer's steps, and those that repeat them with its log."""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.calls import get_loss
from moot.offchain.frontend.capture.eager import EagerRun
from moot.offchain.frontend.data import make_generator
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe, find_form, get_batch
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.replication.logs import name_log
from moot.offchain.replication.orders import Answer, Order, choose_start
from moot.offchain.replication.profiles import ALL_PROFILES
from moot.offchain.replication.published.behaviour import Dishonesty, Steering, tamper
from moot.offchain.replication.published.checkpoints import cast_weights, hash_weights
from moot.offchain.replication.published.hooks import (
    LOSS,
    RequireBinary64,
    Rounder,
    round_outputs,
    rounding,
)
from moot.offchain.replication.published.logs import STREAMS, encode_log, read_log
from moot.offchain.replication.published.parties import AuditorStream, TrainerStream, make_log
from moot.offchain.replication.published.store import load_checkpoint, name_checkpoint
from moot.offchain.replication.published.thresholds import PIVOT, Thresholds
from moot.offchain.replication.sums import summing

METHOD = "published"
"""The method's name in an order."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a party does.

    Attributes:
        folder: where the trainer writes its logs, and the others read them.
        writes: whether it is the trainer; else it repeats the trainer's steps.
        bits: those that are kept.
        pivot: of the thresholds.
        chosen: thresholds of layers by kind and size.
        first: the number of its first step; above 0, it starts from that checkpoint in the folder.
        checkpoint_every: after how many steps it writes a checkpoint with its whole state to a
            trainer's folder; None if never.
        dishonesty: how a trainer cheats, if it does.
    """

    folder: str
    writes: bool
    bits: int = 32
    pivot: float = PIVOT
    chosen: Mapping[str, float] = field(default_factory=dict)
    first: int = 0
    checkpoint_every: int | None = None
    dishonesty: Mapping[str, Any] | None = None


class Run:
    """A recipe's training in one floating-point type, from a state.

    Args:
        recipe: the recipe, whose model is changed.
        state: the state's tensors by name, in any floating-point type.
        dtype: the type.
        seed: of what a step draws.

    Attributes:
        loss: that of the last step, of its last batch; 0 before the first.
    """

    def __init__(
        self, recipe: TrainingRecipe, state: Mapping[str, Tensor], dtype: torch.dtype, seed: int
    ) -> None:
        self.model = recipe.model.to(dtype)
        self._dtype, self._seed, self._loss = dtype, seed, recipe.loss
        self.loss = 0.0
        self._forward: Rounder | None = None
        self._recipe = replace(recipe, loss=self._compute_loss)
        subject = Subject.of(self._recipe)
        own = subject.tensors
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])
        moments = {k: self._cast(v) for k, v in state.items() if k not in own}
        self._eager = EagerRun(subject, moments)
        self._check: AbstractContextManager[object] = nullcontext()
        if dtype == torch.float64:
            self._check = RequireBinary64()  # type: ignore[no-untyped-call]  # torch's is untyped

    def get_state(self) -> dict[str, Tensor]:
        """Return copies of the state's tensors by name."""
        return self._eager.get_state()

    def compute(
        self,
        number: int,
        streams: Mapping[str, Rounder] | None = None,
        *,
        is_rehearsal: bool = False,
    ) -> dict[str, Tensor]:
        """Return what step `number` makes of parameters and the optimizer's state.

        Args:
            number: the step's.
            streams: what rounds forward and backward; None for a step without rounding.
            is_rehearsal: whether it draws other random numbers than the step, which may be made
                beside it: no two steps of a run draw the same ones.
        """
        seeds = make_generator(self._seed, number).integers(1 << 62, size=2).tolist()
        torch.manual_seed(seeds[is_rehearsal])
        batch = [self._cast(tensor) for tensor in get_batch(self._recipe, number)]
        self._forward = streams["forward"] if streams else None
        hooks = rounding(self.model, *(streams[n] for n in STREAMS)) if streams else nullcontext()
        with self._check, hooks:
            new, _ = self._eager.compute(batch, {})
        self._check = nullcontext()  # each step has the same operators as the first
        return new

    def update(self, new: Mapping[str, Tensor]) -> None:
        """Take over what a step has computed."""
        self._eager.update(new)

    def time(self, number: int) -> float:
        """Return the seconds that a step takes without rounding; nothing changes by it."""
        buffers = {name: tensor.clone() for name, tensor in self.model.named_buffers()}
        loss = self.loss
        start = perf_counter()
        self.compute(number, is_rehearsal=True)
        seconds = perf_counter() - start
        for name, tensor in self.model.named_buffers():
            tensor.copy_(buffers[name])
        self.loss = loss
        return seconds

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _compute_loss(self, model: torch.nn.Module, *batch: Tensor) -> Tensor:
        loss: Tensor = get_loss(self._loss(model, *batch))
        if self._forward:
            loss = round_outputs(loss, self._forward, LOSS)
        self.loss = loss.item()
        return loss


def load_training(
    program: str, size: str, seed: int = 0, precision: str = "fp32"
) -> TrainingRecipe:
    """Return a recipe by its name; `UsageError` if it does not train."""
    return require_training(
        find_form(set_precision(load_recipe(program, size=size, seed=seed), precision))
    )


def require_training(recipe: Recipe) -> TrainingRecipe:
    """Return a recipe that trains; any other is a `UsageError`."""
    if not isinstance(recipe, TrainingRecipe):
        raise UsageError("roundings are logged of a training; give a recipe that trains")
    return recipe


def train(recipe: Recipe, order: Order) -> Iterator[Answer]:
    """Yield the start, and the weights after each step, cast to binary32.

    The report of each step says what was rounded, logged and corrected, the bytes of the log, and
    the seconds that the step took.

    Raises:
        UsageError: the recipe does not train.
        LogError: the trainer's log or checkpoint does not fit.
    """
    recipe = require_training(recipe)
    assert order.method is not None
    part = Part(**order.method.options)
    own = {name: tensor.numpy() for name, tensor in get_initial_state(Subject.of(recipe)).items()}
    start = choose_start(order, own)
    state = {name: torch.from_numpy(array) for name, array in start.items()}
    yield Answer(start, {"digest": hash_weights(cast_weights(state)).hex()})
    party = Party(recipe, state, order, part)
    del own, start, state  # a large model's take gigabytes
    for number in count(part.first):
        with summing(ALL_PROFILES[order.profile]):
            report = party.step(number)
        weights = cast_weights(Subject.of(recipe).tensors)
        digest = hash_weights(weights).hex()
        yield Answer({k: v.numpy() for k, v in weights.items()}, {**report, "digest": digest})


class Party:
    """A trainer, an auditor or a third party.

    Args:
        recipe: what is trained.
        start: the state before step 0, by name.
        order: the worker's setting.
        part: what the party does.
    """

    def __init__(
        self, recipe: TrainingRecipe, start: Mapping[str, Tensor], order: Order, part: Part
    ) -> None:
        self._part, self._folder, self._is_timed = part, Path(part.folder), order.timed
        self._thresholds = Thresholds(part.bits, part.pivot, part.chosen)
        self._digest = _digest_run(start, order, part)
        self._dishonesty = Dishonesty(**part.dishonesty) if part.dishonesty else None
        self._single = None
        if order.timed and part.writes:
            copy = replace(recipe, model=deepcopy(recipe.model))
            self._single = Run(copy, start, torch.float32, order.seed)
        state = load_checkpoint(self._folder, part.first, start) if part.first else start
        self.run = Run(recipe, state, torch.float64, order.seed)

    def step(self, number: int) -> dict[str, Any]:
        """Make a step, and return the report of it."""
        begin = perf_counter()
        new, report = (self._write if self._part.writes else self._repeat)(number)
        report |= {"seconds": perf_counter() - begin, "loss": self.run.loss}
        if self._is_timed:
            report["seconds_binary64"] = self.run.time(number)
        if self._single:
            report["seconds_binary32"] = self._single.time(number)
        if self._dishonesty:
            tamper(self._dishonesty, number, new)
        self.run.update(new)
        self._keep(number + 1)
        return report

    def _write(self, number: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Make the trainer's step."""
        steering = Steering(self._dishonesty, number) if self._dishonesty else None
        streams = {name: TrainerStream(self._thresholds, steering) for name in STREAMS}
        new = self.run.compute(number, streams)
        data = encode_log(make_log(self._digest, number, streams))
        name_log(self._folder, number).write_bytes(data)
        return new, _report(streams) | {"log_bytes": len(data)}

    def _repeat(self, number: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Repeat the trainer's step with its log."""
        log = read_log(name_log(self._folder, number), self._digest, number)
        streams = {name: AuditorStream(self._thresholds, log, name) for name in STREAMS}
        new = self.run.compute(number, streams)
        for stream in streams.values():
            stream.finish()
        return new, _report(streams)

    def _keep(self, steps: int) -> None:
        """Write the whole state after some steps, where it is due."""
        every = self._part.checkpoint_every
        if self._part.writes and every and steps % every == 0:
            save_file(self.run.get_state(), name_checkpoint(self._folder, steps))


def _report(streams: Mapping[str, TrainerStream] | Mapping[str, AuditorStream]) -> dict[str, Any]:
    """Return the counts of both streams."""
    return {
        f"{count}_{name}": getattr(stream, count)
        for name, stream in streams.items()
        for count in ("elements", "logged", "corrected")
    }


def _digest_run(start: Mapping[str, Tensor], order: Order, part: Part) -> bytes:
    """Return what names a run in its logs: its program, its start and its roundings."""
    rule = asdict(part)
    fields = [order.program, order.size, order.seed, rule["bits"], rule["pivot"]]
    digest = sha256(json.dumps([*fields, sorted(part.chosen.items())]).encode())
    digest.update(hash_weights(cast_weights(start)))
    return digest.digest()
