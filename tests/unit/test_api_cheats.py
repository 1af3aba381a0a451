"""Cheats as plugins: of a file of a user's, and what the conformance kit says of them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import moot
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.reading import parse_cheat, read_cheat

OWN = '''
"""A cheat of a user's."""

from dataclasses import dataclass

import moot


@dataclass(eq=False)
class Doubled(moot.Behaviour):
    """Doubles an output."""

    step: int = 1
    factor: float = 2.0

    def patch(self, step, state):
        return {0: lambda output: output * self.factor} if step == self.step else None


@dataclass(eq=False)
class NoCheat:
    """Is none."""


class Plain(moot.Behaviour):
    """Is no dataclass."""
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.fixture(scope="module")
def task() -> moot.Task:
    """Return two steps of a small network."""
    return moot.Task(moot.capture("mlp"), steps=2)


def test_a_cheat_is_a_class_in_a_file(file: Path) -> None:
    """Its settings are the fields, as typed; its name in reports is that of the class."""
    cheat: Any = read_cheat(f"{file}:Doubled:step=0,factor=1.5")
    assert (cheat.step, cheat.factor, cheat.name) == (0, 1.5, "doubled")
    assert cheat.describe() == "doubled:step=0,factor=1.5"
    assert parse_cheat(f"{file}:Doubled:step=0") == (f"{file}:Doubled", {"step": "0"})


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (":Doubled:stp=1", "did you mean 'step'"),
        (":Doubled:step=x", "not a whole number"),
        (":Doubled:factor=x", "not a number"),
        (":Doubled:step", "key=value"),
        (":NoCheat", "is no cheat"),
        (":Plain", "write @dataclass above"),
        (":Absent", "has no dataclass Absent"),
    ],
)
def test_what_is_no_cheat_is_refused(file: Path, rest: str, says: str) -> None:
    """A class that is none, and a setting that it lacks, are refused in one line."""
    with pytest.raises(moot.UsageError, match=says) as caught:
        read_cheat(f"{file}{rest}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["wrong-output", "wrong-output:step=0,bit=3", "silent"])
def test_names_stay_as_they_are(task: moot.Task, name: str) -> None:
    """A cheat's text means what it meant, and is what its behaviour is described by."""
    drawn = moot.run(task, name).behaviour
    assert drawn.describe().startswith(name.partition(":")[0])
    assert read_cheat(drawn.describe()).describe() == drawn.describe()


@dataclass(eq=False)
class Vandal(Behaviour):
    """Writes into the batch that it is given, which others may be given, too."""

    def alter_batch(self, step: int, batch: Any) -> Any:
        """Write."""
        del step
        batch[0].reshape(-1)[:1] += np.float32(1)
        return batch


@dataclass(eq=False)
class Raising(Behaviour):
    """Raises."""

    def patch(self, step: int, state: Any) -> Patch | None:
        """Raise."""
        del step, state
        raise ValueError("on purpose")


@dataclass(eq=False)
class Harmless(Behaviour):
    """Changes nothing, and remembers it for all."""

    noted: ClassVar[list[int]] = []


def find(findings: tuple[moot.Finding, ...]) -> set[str]:
    """Return what is not met."""
    return {finding.check for finding in findings if not finding.is_met}


def test_the_kit_knows_a_good_cheat(file: Path, task: moot.Task) -> None:
    """A cheat that does what is asked meets everything, and loses."""
    assert not find(moot.check_cheat(f"{file}:Doubled", task))


@pytest.mark.parametrize(
    ("cheat", "unmet"),
    [
        (Raising(), "it can be run"),
        (Harmless(), "it claims something else"),
        (Harmless(), "its objects share no memory"),
    ],
)
def test_the_kit_knows_bad_ones(task: moot.Task, cheat: Behaviour, unmet: str) -> None:
    """A cheat that raises, or changes nothing at all, is told so."""
    assert unmet in find(moot.check_cheat(cheat, task))


def test_the_kit_knows_who_writes_into_what_others_share(task: moot.Task) -> None:
    """A cheat that writes into an array that it was given is told so, and not merely disputed."""
    shared = [array.copy() for array in task.agreed.batch(0)]
    kept = replace(task.agreed, batch=lambda _: shared)
    common = replace(task)
    common.__dict__["agreed"] = kept
    assert "it leaves alone what it is given" in find(moot.check_cheat(Vandal(), common))
