"""The sharing out of a run among workers, and the audit of what they have come to."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from moot.offchain.commitments.tensors import Array, compute_state_root
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import ParallelError
from moot.offchain.execution.residents import fetch_all, hash_all
from moot.offchain.parallel.partition import split_evenly
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.task import Task

if TYPE_CHECKING:
    from moot.offchain.parallel.launch import Cost, Team

MakeStep = Callable[[int, list[Array], Audit | None], None]
"""(a step, the state before it, an audit): runs it alone, and replaces the state by the next."""


class Sharing:
    """The workers of a provider's run, each with an even share of every batch.

    Args:
        task: what is run.
        workers: how many there are.
        backend: the name of what computes.
        hosts: the folder at which they wait, if torchrun has started them.

    Attributes:
        cost: what the exchange has cost, once a run is over.

    Raises:
        UsageError, ParallelError: the batch is not one for so many workers.
    """

    def __init__(self, task: Task, workers: int, backend: str, hosts: Path | None = None) -> None:
        self._task, self._backend, self._hosts = task, backend, hosts
        self._shares = split_evenly(task.program, workers)
        self.cost: Cost | None = None

    def run(
        self, done: int, state: list[Array], audit: Audit | None, make_step: MakeStep
    ) -> Iterator[int]:
        """Let workers run the steps that are left, and stop at each checkpoint.

        Args:
            done: how many steps are done.
            state: the state then, which is replaced at each checkpoint.
            audit: which steps are run alone, too, with all before them since a checkpoint.
            make_step: runs a step alone.

        Yields:
            How many steps are done.

        Raises:
            ParallelError: the workers fail, or have come to another state than they should.
        """
        from moot.offchain.parallel.launch import Team  # noqa: PLC0415 - imports torch

        task = self._task
        team = Team(
            task.program,
            self._shares,
            backend=self._backend,
            hosts=self._hosts,
            tells=audit is not None,
        )
        keeps = [step for step in task.checkpoints if step > done]
        for kept, root, found in team.run(state, task.batch, range(done, task.steps), keeps):
            steps = range(done, kept)
            if audit is not None and not audit.drawn.isdisjoint(steps):
                self._check(team, steps, state, root, audit, make_step)
            state[:], done = found, kept
            yield kept
        self.cost = team.cost

    def _check(
        self,
        team: "Team",
        steps: range,
        state: list[Array],
        root: Digest,
        audit: Audit,
        make_step: MakeStep,
    ) -> None:
        """Run steps alone, and refuse what workers have come to if it is something else."""
        alone, program = list(state), self._task.program
        for step in steps:
            before = fetch_all(alone)
            make_step(step, alone, audit)
            liar = team.find_liar(before, self._task.batch(step), step)
            if liar is not None:
                rank, operator = liar
                raise ParallelError(
                    f"worker {rank} has computed operator {program.names[operator]} of step {step} "
                    "otherwise than it is defined; run the job without it"
                )
        if compute_state_root(hash_all(alone)) != root:
            raise ParallelError(
                f"the workers came to another state by step {steps.stop - 1} than this process, "
                "and each says that it has computed its part; look after their connections"
            )
