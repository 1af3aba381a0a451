"""The dispute of the published method: two parties' checkpoints, and a third that decides."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import LogError
from moot.offchain.replication.compare import Process, Setting, running
from moot.offchain.replication.profiles import Profile
from moot.offchain.replication.published.behaviour import Dishonesty
from moot.offchain.replication.published.checkpoints import (
    Difference,
    cast_weights,
    hash_weights,
    plant,
    search,
)
from moot.offchain.replication.published.replicate import Options, make_method
from moot.offchain.replication.published.store import read_checkpoint
from moot.offchain.replication.published.training import Part


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a dispute.

    Attributes:
        difference: the first checkpoint in which the parties differ.
        digest: what the third party has come to there, from the checkpoint before.
        winner: "trainer" or "auditor", whose checkpoint that is; "neither", if it is no one's.
    """

    difference: Difference
    digest: Digest
    winner: str


def dispute(
    setting: Setting,
    profiles: tuple[Profile, Profile, Profile],
    options: Options,
    dishonesty: Dishonesty | None = None,
) -> Verdict | None:
    """Let a trainer and an auditor train, and a third party decide where they differ first.

    The third party repeats the steps from the last checkpoint on which both agree to the first that
    differs, with the trainer's log and by the auditor's rule, from the state that the trainer hands
    over: its weights are those that both have committed to; the optimizer's state is taken on
    trust, since no checkpoint holds it.

    Args:
        setting: what is trained; its number of steps is a multiple of `checkpoint_every`.
        profiles: the trainer's, the auditor's and the third party's.
        options: of the method.
        dishonesty: how the trainer cheats, if it does.

    Returns:
        None, where both commit to the same checkpoints.

    Raises:
        ReplicationError: a process fails.
        LogError: the trainer hands over another state than it has committed to.
    """
    trainer, auditor, third = profiles
    every = options.checkpoint_every
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        rule = Part(directory, False, options.bits, options.pivot, options.chosen)
        cheat = asdict(dishonesty) if dishonesty else None
        writing = replace(rule, writes=True, checkpoint_every=every, dishonesty=cheat)
        leaves: tuple[list[Digest], list[Digest]] = ([], [])
        methods = [make_method(writing), make_method(rule)]
        with running(setting, (trainer, auditor), methods) as pair:
            for side, process in zip(leaves, pair, strict=True):
                side.append(bytes.fromhex(process.report["digest"]))
            for step in range(setting.steps):
                for side, process in zip(leaves, pair, strict=True):
                    digest = _advance(process)
                    if (step + 1) % every == 0:
                        side.append(digest)
            difference = find_difference(leaves)
            if difference is None:
                return None
            agreed = difference.checkpoint - 1
            check_state(Path(directory), agreed * every, leaves[0][agreed])
            start = pair[0].start
            digest = _repeat(setting, third, replace(rule, first=agreed * every), start, every)
    sides = dict(zip(difference.digests, ("trainer", "auditor"), strict=True))
    return Verdict(difference, digest, sides.get(digest, "neither"))


def find_difference(leaves: Sequence[Sequence[Digest]]) -> Difference | None:
    """Return where two parties' checkpoints differ first, as they find it from their trees."""
    trees = [plant(side) for side in leaves]
    return search([commitment for commitment, _ in trees], [opener for _, opener in trees])


def check_state(folder: Path, steps: int, digest: Digest) -> None:
    """Refuse a state whose weights are not those that were committed to with `LogError`."""
    if steps and hash_weights(cast_weights(read_checkpoint(folder, steps))) != digest:
        raise LogError(f"the state after {steps} steps has other weights than its checkpoint")


def _repeat(setting: Setting, third: Profile, part: Part, start: Path, steps: int) -> Digest:
    """Let the third party repeat some steps, and return what it comes to."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moot-")))
        process = Process(setting, third, folder, start, make_method(part))
        stack.callback(process.close)
        process.finish()
        *_, digest = (_advance(process) for _ in range(steps))
        return digest


def _advance(process: Process) -> Digest:
    """Let a process make a step, and return the digest of its weights."""
    process.begin()
    process.finish()
    return bytes.fromhex(process.report["digest"])
