"""The published method between two machines: logs of all roundings, and checkpoints by sha-256.

    published.json              what is trained, and the digests of the checkpoints that are there
    checkpoint-N.safetensors    the whole state after N steps, in binary64
    step-N.log                  the roundings of a step

Stock torch computes, in binary64, and rounds as a log says (arXiv 2403.09603). A claim is the top
of a tree over the sha-256 of the weights at all checkpoints. The optimizer's state is in no digest,
so that an interval takes it on trust that does not begin where an audit has come to.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save_file

from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import LogError, UsageError
from moot.offchain.files import replacing
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.replication.orders import Answer, Order
from moot.offchain.replication.published.behaviour import STEER, TAMPER, Dishonesty
from moot.offchain.replication.published.checkpoints import cast_weights, plant
from moot.offchain.replication.published.dispute import check_state
from moot.offchain.replication.published.replicate import make_method
from moot.offchain.replication.published.store import (
    load_checkpoint,
    name_checkpoint,
    read_checkpoint,
)
from moot.offchain.replication.published.training import Part, load_training
from moot.offchain.replication.published.training import train as advance
from moot.offchain.training.auditor import Difference, Report
from moot.offchain.training.trainer import PUBLISHED_FILE, holding

MAX_BYTES = 1 << 26
PROFILE = "native"
_CHEAT = re.compile(rf"({STEER}|{TAMPER}):step=(\d{{1,9}})")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is trained by the published method.

    Attributes:
        program: an example, or `path/to/file.py:function`.
        size: of an example.
        precision: that in which the recipe trains.
        seed: of its weights and batches.
        steps: the number of steps.
        checkpoint_every: steps from one checkpoint to the next; it divides them.
    """

    program: str
    size: str
    precision: str
    seed: int
    steps: int
    checkpoint_every: int

    @property
    def intervals(self) -> int:
        """The number of intervals."""
        return self.steps // self.checkpoint_every


@dataclass(frozen=True, slots=True)
class Published:
    """A training by the published method, as its folder says.

    Attributes:
        plan: what is trained.
        digests: those of the checkpoints, the start first.
    """

    plan: Plan
    digests: tuple[Digest, ...]

    @property
    def claim(self) -> Digest:
        """The top of the tree over the digests."""
        commitment, _ = plant(self.digests)
        return commitment.top

    @property
    def is_whole(self) -> bool:
        """Whether all steps are done."""
        return len(self.digests) == self.plan.intervals + 1

    def write(self, folder: Path) -> None:
        """Write it to its folder."""
        found = asdict(self.plan) | {"digests": [it.hex() for it in self.digests]}
        with replacing(folder / PUBLISHED_FILE, is_durable=True) as draft:
            draft.write_text(json.dumps(found, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what a folder says, which another party may have written; None if nothing.

        Raises:
            LogError: what it says makes no sense.
        """
        path = folder / PUBLISHED_FILE
        try:
            with path.open("rb") as file:
                found: dict[str, Any] = json.loads(file.read(MAX_BYTES))
            digests = tuple(bytes.fromhex(it) for it in found.pop("digests"))
            plan = Plan(**found)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise LogError(f"{path} can't be read: {type(error).__name__} {error}") from error
        is_right = (
            all(type(it) is str for it in (plan.program, plan.size, plan.precision))
            and all(type(it) is int for it in (plan.seed, plan.steps, plan.checkpoint_every))
            and 0 < plan.checkpoint_every <= plan.steps
            and plan.steps % plan.checkpoint_every == 0
            and len(digests) <= plan.intervals + 1
            and all(len(it) == 32 for it in digests)
        )
        if not is_right:
            raise LogError(f"{path} describes no training")
        return cls(plan, digests)


def read_dishonesty(cheat: str) -> Dishonesty | None:
    """Return how a trainer cheats by the published method, as `tamper:step=5` says it."""
    if not cheat:
        return None
    found = _CHEAT.fullmatch(cheat)
    if found is None:
        raise UsageError(
            f"--method published knows {TAMPER}:step=N and {STEER}:step=N, not {cheat}"
        )
    return Dishonesty(found[1], int(found[2]))


def train(folder: Path, plan: Plan, dishonesty: Dishonesty | None, report: Report) -> Published:
    """Train in a folder, or go on there from the last checkpoint, and return what it says.

    Raises:
        UsageError: the folder holds another training, another process trains there, the recipe
            does not train, or the steps are no multiple of the interval.
        LogError: the last checkpoint can't be read.
    """
    if plan.steps % plan.checkpoint_every:
        raise UsageError(
            f"--checkpoint-every {plan.checkpoint_every} has to divide --steps {plan.steps}"
        )
    with holding(folder):
        return _train(folder, plan, dishonesty, report)


def _train(folder: Path, plan: Plan, dishonesty: Dishonesty | None, report: Report) -> Published:
    known = Published.read(folder)
    if known is not None and known.plan != plan:
        raise UsageError(f"{folder} holds another training; choose another folder")
    recipe = _load(plan)
    if known is None:
        state = get_initial_state(Subject.of(recipe))
        save_file({k: v.contiguous() for k, v in state.items()}, name_checkpoint(folder, 0))
    else:
        _start_from(folder, recipe)
    digests = list(known.digests) if known is not None else []
    first = plan.checkpoint_every * max(0, len(digests) - 1)
    part = Part(
        str(folder),
        writes=True,
        first=first,
        checkpoint_every=plan.checkpoint_every,
        dishonesty=asdict(dishonesty) if dishonesty else None,
    )
    answers = _begin(recipe, plan, part)
    start = _get_digest(next(answers))
    digests = digests or [start]
    for step in range(first, plan.steps):
        answer = next(answers)
        if (step + 1) % plan.checkpoint_every == 0:
            digests.append(_get_digest(answer))
            Published(plan, tuple(digests)).write(folder)
        report(step + 1, plan.steps)
    return Published(plan, tuple(digests))


def audit(
    folder: Path, published: Published, intervals: Sequence[int], report: Report
) -> tuple[list[int], int, Difference | None]:
    """Repeat intervals with the trainer's logs; return which, the corrections, and what differs.

    Args:
        folder: the trainer's.
        published: what it says.
        intervals: their numbers, ascending.
        report: called after every step.

    Raises:
        LogError: a log or a checkpoint is missing, malformed, or another one.
    """
    plan, every = published.plan, published.plan.checkpoint_every
    done, corrections, answers, at = list[int](), 0, None, -1
    for place, interval in enumerate(intervals):
        if answers is None or at != interval:
            check_state(folder, interval * every, published.digests[interval])
            recipe = _load(plan)
            _start_from(folder, recipe)
            answers = _begin(recipe, plan, Part(str(folder), writes=False, first=interval * every))
            if _get_digest(next(answers)) != published.digests[0]:
                raise LogError(f"{name_checkpoint(folder, 0)} is not the start that was claimed")
        done.append(interval)
        for count in range(1, every + 1):
            answer = next(answers)
            corrections += sum(answer.report[f"corrected_{it}"] for it in ("forward", "backward"))
            report(place * every + count, len(intervals) * every)
        if _get_digest(answer) != published.digests[interval + 1]:
            return done, corrections, _describe(folder, plan, interval, answer)
        at = interval + 1
    return done, corrections, None


def _describe(folder: Path, plan: Plan, interval: int, answer: Answer) -> Difference:
    """Return where weights differ from those of the trainer's checkpoint."""
    first, last = interval * plan.checkpoint_every, (interval + 1) * plan.checkpoint_every
    claimed = cast_weights(read_checkpoint(folder, last))
    mine = {name: np.asarray(answer.state[name], np.float32) for name in claimed}
    wrong = {
        name: np.flatnonzero(mine[name].view(np.uint32) != theirs.numpy().view(np.uint32))
        for name, theirs in claimed.items()
    }
    wrong = {name: places for name, places in wrong.items() if len(places)}
    if not wrong:  # the checkpoint is not the one that was claimed
        return Difference(first, last - 1)
    name = min(wrong)
    element = int(wrong[name][0])
    shown = (np.asarray(it).reshape(-1)[element] for it in (claimed[name], mine[name]))
    was, found = (f"0x{int(it.view(np.uint32)):08x}" for it in shown)
    count = sum(map(len, wrong.values()))
    return Difference(first, last - 1, name, element, was, found, len(wrong), count)


def _load(plan: Plan) -> TrainingRecipe:
    return load_training(plan.program, plan.size, plan.seed, plan.precision)


def _start_from(folder: Path, recipe: TrainingRecipe) -> None:
    """Let a recipe begin with the weights of the trainer, which other machines draw otherwise."""
    own = Subject.of(recipe).tensors
    state = load_checkpoint(folder, 0, get_initial_state(Subject.of(recipe)))
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(state[name])


def _begin(recipe: TrainingRecipe, plan: Plan, part: Part) -> Iterator[Answer]:
    """Return the answers of a party, of which the first is the start."""
    order = Order(
        program=plan.program,
        size=plan.size,
        seed=plan.seed,
        profile=PROFILE,
        arithmetic=None,
        state="",
        start=None,
        method=make_method(part),
    )
    return advance(recipe, order)


def _get_digest(answer: Answer) -> Digest:
    return bytes.fromhex(answer.report["digest"])
