"""Cache of the plans of operator groups, shared by the runs of one program."""

from moot.offchain.backends.port import Backend, FusedPlan
from moot.offchain.planning.grouping import Fused
from moot.offchain.planning.schedule import Task


class GroupPlans:
    """Plans that are made once for each group and what is kept of it.

    Runs that replace an output, or show all of them, have other groups around a few operators, and
    the same ones elsewhere.

    Args:
        backend: what computes the program.
        most: groups that are remembered; more than that begin anew.
    """

    def __init__(self, backend: Backend, most: int) -> None:
        self._backend, self._most = backend, most
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Fused, FusedPlan]] = {}

    def plan(self, fused: Fused, task: Task) -> FusedPlan:
        """Return the plan of a task's group."""
        name = task.members, task.kept  # which is hashed sooner than the group, and rarely another
        found = self._known.get(name)
        if found is not None and found[0] == fused:
            return found[1]
        plan = self._backend.plan_fused(fused, task.kept)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[name] = fused, plan
        return plan
