"""The public names: they are imported lazily, documented, and their examples run."""

import doctest
import subprocess
import sys
from functools import lru_cache
from typing import Any

import pytest

import moot
from moot import cheats, tasks
from moot.offchain.providers.catalogue import ALL_CHEATS
from tests.quick import only

SLOW = {
    "Design",
    "Price",
    "Quote",
    "Sensitivity",
    "Twins",
    "check_cheat",
    "check_strategy",
    "design",
    "from_pretrained",
    "from_trainer",
    "price",
    "sensitivity",
    "twins",
}


def test_the_package_is_imported_at_once() -> None:
    """`import moot` loads neither torch nor numpy nor web3, and has its names all the same."""
    code = (
        "import sys, time; began = time.perf_counter(); import moot; "
        "took = time.perf_counter() - began; "
        "heavy = {'torch', 'numpy', 'web3', 'pyarrow'} & set(sys.modules); "
        "print(took < 0.3, sorted(heavy), set(moot.__all__) <= set(dir(moot)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout.split() == ["True", "[]", "True"]


def test_names_are_those_of_the_table() -> None:
    """Every public name has a module, and one that does not exist is refused as Python does."""
    assert sorted(moot._PLACES) == moot.__all__
    with pytest.raises(AttributeError, match="no attribute 'verdikt'"):
        _ = moot.verdikt
    assert moot.__version__


def test_no_module_hides_a_name() -> None:
    """A module of the package is called as a public name only if it is what the name means."""
    hidden = {
        name
        for name in moot.__all__
        if f"moot.{name}" in sys.modules and getattr(moot, name) is not sys.modules[f"moot.{name}"]
    }
    assert not hidden


@pytest.mark.parametrize("name", only(set(moot.__all__) - SLOW, moot.__all__))
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name says what it is, with an example that does as it says."""
    value = getattr(moot, name)
    assert value.__doc__
    if value is cheats:
        return
    monkeypatch.setattr(tasks, "load", _load)
    monkeypatch.setattr(tasks, "capture_named", _capture)
    tests = doctest.DocTestFinder(recurse=False).find(value, name)
    assert sum(len(test.examples) for test in tests) > 1, f"{name} has no example"
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        runner.run(test)
    assert not runner.summarize(verbose=False).failed


_real_load, _real_capture = tasks.load, tasks.capture_named


@lru_cache
def _load(setting: Any) -> Any:
    """Return a recipe, one for all examples."""
    return _real_load(setting)


@lru_cache
def _capture(setting: Any, recipe: Any) -> Any:
    """Return a program, one for all examples."""
    return _real_capture(setting, recipe)


def test_cheats_are_those_of_the_catalogue() -> None:
    """Each cheat of the table is a name of `moot.cheats`, and has the fields that it lists."""
    for name, row in ALL_CHEATS.items():
        kind = getattr(cheats, row.place.rpartition(":")[2])
        assert kind.name == name
        given = [key for key, field in kind.__dataclass_fields__.items() if field.init]
        assert tuple(given) == row.settings
    assert len(cheats.__all__) == len(ALL_CHEATS)
    with pytest.raises(AttributeError, match="it has EarlyStop"):
        _ = cheats.WrongOutptu
