"""The policy of a provider: which jobs it takes; users write their own as a subclass."""

from pathlib import Path

from moot.contracts.model.types import Job
from moot.offchain.errors import UsageError
from moot.offchain.plugins import execute_file
from moot.offchain.programs.graph import Program
from moot.offchain.text import clean


class Policy:
    """A policy that takes every job; each method returns why not, or None.

    A user's own is a subclass; `moot provider run --policy path/to/file.py:Class` takes it. One
    that fails at a job refuses it.

    Example:
        >>> import moot
        >>> class Short(moot.Policy):
        ...     def refuse_job(self, job):
        ...         return "too long" if job.terms.steps > 100 else None
        >>> isinstance(Short(), moot.Policy)
        True
    """

    def refuse_job(self, job: Job) -> str | None:
        """Decide from what the chain says: client, reward, bond, clocks, steps."""
        del job
        return None

    def refuse_program(self, job: Job, program: Program) -> str | None:
        """Decide once the program is there: operators, sizes."""
        del job, program
        return None


def ask_policy(policy: Policy, job: Job) -> str | None:
    """Return why a policy refuses a job from what the chain says.

    One that fails at a job, whose terms a stranger has chosen, refuses it, and ends nobody.
    """
    try:
        return policy.refuse_job(job)
    except Exception as error:  # noqa: BLE001 - it is the user's, and does whatever it does
        return f"the policy has failed ({type(error).__name__}: {clean(str(error))})"


def load_policy(name: str) -> Policy:
    """Return the policy of path/to/file.py:Class; the usual one for no name."""
    if not name:
        return Policy()
    path, _, kind = name.rpartition(":")
    module = execute_file(Path(path), "moot_policy")
    if module is None:
        raise UsageError(f"{name} is no policy; write path/to/file.py:Class")
    policy = getattr(module, kind, None)
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise UsageError(f"{path} has no class {kind} of moot.offchain.parties.policy.Policy")
    return policy()
