"""The conformance kits: what a user's cheat or strategy is tried on before anybody relies on it."""

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moot.disputing import dispute
from moot.offchain.errors import MootError, UsageError
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.reading import list_settings, read_cheat
from moot.running import Run, run
from moot.sim.economy.conformance import Finding
from moot.sim.economy.plugins import holding
from moot.tasks import Task

if TYPE_CHECKING:
    from moot.sim.economy.strategies.base import Strategy

Progress = Callable[[str, int, int], None]

STEPS, CHECKPOINT_EVERY = 4, 2
SEEDS = (0, 1)


def check_strategy(
    strategy: "Strategy | str", role: str = "providers", progress: Progress = lambda *_: None
) -> tuple[Finding, ...]:
    """Try a strategy of simulated markets, with honest providers, cheats and watchers.

    Args:
        strategy: an object of a subclass of `moot.Strategy`, or `path/to/file.py:Class`.
        role: `providers` or `watchers`.
        progress: is called with a name, how much of it is done, and how much there is.

    Returns:
        What was tried (`check`), whether the strategy does as is asked (`is_met`), and what was
        seen (`detail`).

    Raises:
        UsageError: there is no such strategy.

    Example:
        >>> import moot
        >>> all(it.is_met for it in moot.check_strategy("examples/own_strategy.py:OnceBitten"))
        True
    """
    from moot.sim.economy import conformance  # noqa: PLC0415 - imports torch

    if isinstance(strategy, str):
        return tuple(conformance.check_strategy(strategy, role, progress))
    name = type(strategy).__name__
    with holding({name: strategy}):
        return tuple(conformance.check_strategy(name, role, progress))


def check_cheat(
    cheat: Behaviour | str, task: Task | None = None, progress: Progress = lambda *_: None
) -> tuple[Finding, ...]:
    """Try a cheat: draw it, run it, and dispute it with an honest run.

    Args:
        cheat: an object of a subclass of `moot.Behaviour`, or a text as `moot dispute --cheat`
            takes it, such as `path/to/file.py:Class`.
        task: what is cheated in; None takes 4 steps of a small network.
        progress: is called with a name, how much of it is done, and how much there is.

    Returns:
        What was tried (`check`), whether the cheat does as is asked (`is_met`), and what was seen
        (`detail`). The kit ends at the first thing without which no other can be tried.

    Raises:
        UsageError: there is no such cheat or setting.

    Example:
        >>> import moot
        >>> findings = moot.check_cheat(moot.cheats.SkippedStep(), moot.Task("mlp", steps=2))
        >>> all(finding.is_met for finding in findings)
        True
    """
    given = read_cheat(cheat)
    chosen = task or Task("mlp", STEPS, CHECKPOINT_EVERY)
    return tuple(_try_cheat(given, chosen, progress))


def _try_cheat(cheat: Behaviour, task: Task, progress: Progress) -> Iterator[Finding]:
    if "__dataclass_fields__" not in vars(type(cheat)):
        kind = type(cheat).__name__
        yield Finding("it is a dataclass", False, f"write @dataclass(eq=False) above class {kind}")
        return
    settings = list_settings(type(cheat))
    yield Finding("it is a dataclass", True, f"settings: {', '.join(settings) or 'none'}")
    yield _find_memory(cheat)
    before = _hash_inputs(task)
    honest, found = run(task), []
    for number, seed in enumerate((SEEDS[0], *SEEDS)):
        progress("runs", number, len(SEEDS) + 1)
        try:
            found.append(run(task, cheat, seed=seed))
        except Exception as error:  # noqa: BLE001 - it is the user's, and raises whatever it does
            detail = f"with the seed {seed} it raises {type(error).__name__}: {error}"
            yield Finding("it can be run", False, detail)
            return
    first, again, _ = found
    yield Finding("it can be run", True, f"as {first.behaviour.describe()}")
    yield Finding(
        "it leaves alone what it is given",
        _hash_inputs(task) == before,
        "the start and the batches are compared; a hook returns other arrays",
    )
    is_same = first.history_root == again.history_root
    yield Finding("the same seed gives the same claim", is_same, f"seed {SEEDS[0]}, twice")
    liars = [it for it in found if it.history_root != honest.history_root]
    if not liars and not cheat.accomplice:
        detail = "every run claims what an honest one does; change more, or other elements"
        yield Finding("it claims something else", False, detail)
        return
    detail = f"in {len(liars)} of {len(found)} runs"
    yield Finding("it claims something else", bool(liars) or bool(cheat.accomplice), detail)
    yield _find_end(task, [*liars, first][0], honest, progress)


def _find_end(task: Task, liar: Run, honest: Run, progress: Progress) -> Finding:
    """Say whether the cheat loses a dispute, and where it was found."""
    check = "it loses a dispute with an honest run"
    others = [run(task, liar.behaviour.accomplice)] if liar.behaviour.accomplice else []
    try:
        played = dispute(task, [liar, honest, *others])
        for number, _ in enumerate(played.play(), 1):
            progress("moves", number, number + 1)
    except MootError as error:
        return Finding(check, False, error.message)
    except Exception as error:  # noqa: BLE001 - likewise
        return Finding(check, False, f"it raises {type(error).__name__}: {error}")
    verdict = played.verdict
    name = next(iter(played.runs))
    is_met = verdict.honest_won and name in verdict.losers
    located = verdict.located
    place = "" if located.step is None else f" in step {located.step}"
    place += "" if located.operator is None else f", operator {located.operator.name}"
    seen = f"{verdict.winner} wins ({verdict.reason}){place}"
    return Finding(check, is_met, seen)


def _hash_inputs(task: Task) -> bytes:
    """Return a digest of what every run of a task is given."""
    digest = hashlib.sha256()
    agreed = task.agreed
    for array in (*agreed.initial_state, *(a for s in range(task.steps) for a in agreed.batch(s))):
        digest.update(array.tobytes())
    return digest.digest()


def _find_memory(cheat: Behaviour) -> Finding:
    """Say whether two objects of the class would remember things together."""
    shared = [
        key
        for kind in type(cheat).__mro__
        if kind not in (Behaviour, object)
        for key, value in vars(kind).items()
        if isinstance(value, list | dict | set) and not key.startswith("__")
    ]
    seen = f"{', '.join(shared)} belongs to all of them" if shared else "each has its own"
    return Finding("its objects share no memory", not shared, seen)


def require_file(name: str) -> None:
    """Refuse what is no file and class.

    Raises:
        UsageError: it is none.
    """
    if ".py:" not in name:
        raise UsageError(f"{name} is not a file and a class; write path/to/file.py:Class")
