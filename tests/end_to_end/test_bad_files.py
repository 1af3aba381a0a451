"""A user's file with anything wrong in it is refused in one line, and leaves nothing behind."""

import re
import warnings
from pathlib import Path

import pytest

from tests.end_to_end.bad_files import draw_pair, list_files, make_file
from tests.end_to_end.command import moot
from tests.leftovers import leaving_nothing
from tests.quick import every

REFUSED, MISUSED = 1, 2
"""The statuses with which a command exits that refuses what it was given."""

SHOWS = re.compile(r"print|logging|warn|stdout|input|Thread")
"""Code that shows something of its own."""

HIDDEN = ("Traceback", "fault of moot", "FakeTensor", "object at 0x", "Neighbourhood", "_path")
"""What no line has in it."""

FILES = [*list_files()]
PAIRS = 48


def refuse(parts: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Require that a file is shown as a program, or refused as it should be."""
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    path = folder / "user.py"
    path.write_bytes(make_file(parts).encode(errors="surrogateescape"))
    writes = any("'written'" in part for part in parts.values())
    with leaving_nothing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = moot("program", "show", f"{path}:build")
        if writes:
            Path("written").unlink(missing_ok=True)
    if done.status == 0:
        return
    assert done.status in (REFUSED, MISUSED), done
    assert not done.stdout, done
    *others, line = done.stderr.splitlines()
    assert line.startswith("moot: "), done
    assert not [part for part in HIDDEN if part in done.stderr], done
    assert not others or any(map(SHOWS.search, parts.values())), done


@pytest.mark.parametrize("place", every(80, range(len(FILES))))
def test_a_file_with_one_wrong_part(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a program, or one line says what is wrong, with a status that is not 0."""
    refuse(FILES[place], tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", every(96, range(PAIRS)))
def test_a_file_with_two_wrong_parts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where a second part is other than it was."""
    refuse(draw_pair(seed), tmp_path, monkeypatch)
