"""Mutants of the parties' Python are killed by the quick tests of their files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.python import ROOT, TESTS
from tests.mutants.run import list_mutants, read_reasons
from tests.mutants.semantic import make_semantic


def list_survivors(folder: Path, *arguments: str) -> list[str]:
    """Return which of some mutants survive without a reason that is known."""
    fates = folder / "fates"
    words = ["-m", "tests.mutants.run", "python", "--processes", "1", "--json", str(fates)]
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, *words, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = [json.loads(line) for line in fates.read_text().splitlines()]
    assert found, done.stderr
    left = {name for name, kind, _ in found if kind == "survived"}
    return sorted(left - {*read_reasons()})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "--semantic"])
def test_drawn_mutants_are_killed(tmp_path: Path, kind: str) -> None:
    """Whatever one token or one rule is changed to, a quick test of its file fails."""
    files = ["--file", "conditions.py", "--file", "fees.py"]
    assert (
        list_survivors(tmp_path, *files, *filter(None, [kind]), "--sample", "3", "--seed", "42")
        == []
    )


@pytest.mark.slow
@pytest.mark.parametrize("file", TESTS)
def test_all_rules_are_guarded(tmp_path: Path, file: str) -> None:
    """Each change of a rule that is written down is killed."""
    assert list_survivors(tmp_path, "--file", file, "--semantic") == []


def test_each_file_has_its_tests() -> None:
    """What judges a file is there, and each file has rules that are written down."""
    for file, tests in TESTS.items():
        assert all((ROOT / it.partition("::")[0]).is_file() for it in tests)
        assert [*list_mutants("python", [file], make_semantic)]
