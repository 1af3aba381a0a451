"""The judge of mutants of the parties' Python, by the quick tests of each file.

The modules are imported once. A child of this process puts a mutant's code into the functions and
classes that are there, whoever imported them, and runs the tests; it is killed by the first that
fails. The numbers of enumerations are names, and are not mutated.
"""

import ast
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import EnumMeta
from importlib import import_module
from pathlib import Path
from sys import modules
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings

from tests.mutants.apart import run_apart
from tests.mutants.generate import Mutant

ROOT = Path(__file__).parents[2]
_RESOURCES = ("tests/unit/test_gas_limits.py", "tests/parties/test_resources.py")
_SENDING = (
    "tests/sending/test_limits.py",
    "tests/sending/test_sender.py",
    "tests/sending/test_reorganisations.py",
)
_FEES = ("tests/unit/test_accounts.py",)
_WORKSHOP = ("tests/unit/test_errands.py", "tests/parties/test_workshop.py")
TESTS: Mapping[str, Sequence[str]] = {
    "children.py": ("tests/unit/test_children.py",),
    "parties/resources.py": _RESOURCES,
    "disputes/referee/gas.py": _RESOURCES,
    "disputes/joining/conditions.py": ("tests/unit/test_conditions.py",),
    "disputes/referee/crowds.py": ("tests/property/test_crowds.py",),
    "chain/accounts/budget.py": _FEES,
    "chain/accounts/fees.py": _FEES,
    "chain/accounts/sender.py": _SENDING,
    "parties/workshop.py": _WORKSHOP,
    "parties/serving.py": (
        "tests/unit/test_stages.py",
        "tests/parties/test_serving.py::test_unpaid_work_is_not_served",
    ),
}
"""The files of `offchain`, and the tests that judge each."""
IDLE_S = 6.0
"""What has so long hardly wanted a core waits for ever."""
PATIENCE_S = 12.0
"""Nor does a test wait for longer."""


class Judge:
    """A judge whose tests pass with the code as it is; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take; one that takes longer goes round in a loop.
        order: there is none; tests come in the order of their list.
    """

    SECONDS: ClassVar[int] = 12
    order: ClassVar[list[int]] = []

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant."""
        _end_when_idle()
        _be_silent()
        tests = TESTS[mutant.file]
        _run(*tests, "--collect-only")
        name = "moot.offchain." + mutant.file.removesuffix(".py").replace("/", ".")
        try:
            install(import_module(name), mutant.text)
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return "stillborn", -1
        for module in [it for key, it in modules.items() if key.startswith("tests.")]:
            if "PATIENCE_S" in vars(module):
                vars(module)["PATIENCE_S"] = PATIENCE_S
        return ("survived" if _run(*tests, "-x") == pytest.ExitCode.OK else "killed"), -1

    def check(self, file: str) -> bool:
        """Whether the tests of a file pass when its own code is put in place of itself."""
        text = (ROOT / "offchain" / file).read_text(encoding="utf-8")
        found = run_apart(self.judge, Mutant(file, "", file, text), seconds=self.SECONDS)
        return bool(found == ("survived", -1))


def is_of_names(mutant: Mutant) -> bool:
    """Whether a mutant changes only what a name stands for: a union of types, or an enumeration.

    Members of enumerations keep their numbers, which others have imported.
    """
    if mutant.name.endswith("| | -> &"):
        return True
    text = (ROOT / "offchain" / mutant.file).read_text(encoding="utf-8")
    classes = [it for it in ast.parse(text).body if isinstance(it, ast.ClassDef)]
    enums = [it for it in classes if any("Enum" in ast.unparse(base) for base in it.bases)]
    pairs = zip(text.splitlines(), mutant.text.splitlines(), strict=False)
    row = next(row for row, (old, new) in enumerate(pairs, 1) if old != new)
    return any(it.lineno < row <= (it.end_lineno or 0) for it in enums)


def prepare(files: Sequence[str]) -> Judge:
    """Return a judge of some files, whose tests are imported.

    Raises:
        ValueError: tests fail without any mutant.
    """
    os.chdir(ROOT)
    judge = Judge()
    with suppress(SystemExit):
        _run(*dict.fromkeys(test for file in files for test in TESTS[file]), "--collect-only")
    for file in files:
        if not judge.check(file):
            raise ValueError(f"the tests of {file} fail without any mutant")
    return judge


def _run(*arguments: str) -> int:
    """Run tests in this process, without what is slow."""
    words = ["-q", "-p", "no:cacheprovider", "--assert=plain", "-m", "not slow", "--no-header"]
    return pytest.main([*words, *arguments], plugins=[_Hasty()])


class _Hasty:
    """Settings under which no smaller example is looked for than the first that fails."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Change what the tests' own settings are, before the tests are imported."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("hasty", settings.default, phases=phases)
        settings.load_profile("hasty")


def _end_when_idle() -> None:
    """End the process once it has had nothing to do for a while: it waits for what never comes."""
    wanted = [_measure_work(os.getpid())]

    def look(*_: object) -> None:
        before, wanted[0] = wanted[0], _measure_work(os.getpid())
        if 0 <= wanted[0] - before < IDLE_S / 50:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, IDLE_S, IDLE_S)


def _measure_work(pid: int) -> float:
    """Return the seconds that a process and its children have computed, or waited for a core."""
    seconds = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            computed, waited, _ = map(int, (task / "schedstat").read_text().split())
            children = map(int, (task / "children").read_text().split())
            seconds += (computed + waited) / 1e9 + sum(map(_measure_work, children))
    return seconds


def _be_silent() -> None:
    """Say nothing any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def install(module: ModuleType, text: str) -> None:
    """Run a module's mutant, and give its code to the functions and classes that there are."""
    before = dict(vars(module))
    exec(compile(text, str(module.__file__), "exec"), vars(module))  # noqa: S102 - our own source
    changed: dict[str, Any] = {}
    for name, old in before.items():
        new = vars(module)[name]
        if new is old or getattr(old, "__module__", "") != module.__name__:
            if name.strip("_").isupper() and new is not old:
                changed[name] = old
            continue
        if isinstance(old, EnumMeta):
            setattr(module, name, old)
        elif isinstance(old, type):
            _refill(old, new)
            setattr(module, name, old)
        elif isinstance(old, FunctionType):
            _recode(old, new)
            setattr(module, name, old)
    for other in [it for key, it in modules.items() if key.startswith(("moot.", "tests"))]:
        for name, old in changed.items():
            if other is not module and vars(other).get(name) is old:
                setattr(other, name, vars(module)[name])


def _refill(old: type, new: type) -> None:
    """Give a class what another of the same name has."""
    for name, value in list(vars(new).items()):
        known = vars(old).get(name)
        pairs = list(_find_functions(known, value))
        for function, other in pairs:
            _recode(function, other)
        if not pairs and not name.startswith("__") and not hasattr(value, "__objclass__"):
            setattr(old, name, value)


def _find_functions(old: object, new: object) -> Iterator[tuple[Any, Any]]:
    """Yield the functions of which an attribute of a class consists, with those of another."""
    unwrap: Callable[[Any], Any] = lambda it: getattr(it, "fget", getattr(it, "__func__", it))  # noqa: E731 - a short one
    first, second = unwrap(old), unwrap(new)
    if isinstance(first, FunctionType) and isinstance(second, FunctionType):
        yield first, second


def _recode(old: Any, new: Any) -> None:
    """Give a function another's code, defaults and cells."""
    inner, other = getattr(old, "__wrapped__", None), getattr(new, "__wrapped__", None)
    if inner is not None and other is not None:
        _recode(inner, other)
        return
    old.__code__ = new.__code__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
