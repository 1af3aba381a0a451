"""Files that grow by lines: what was torn is taken away, and nobody else's file is touched."""

from pathlib import Path

import pytest

from moot.offchain.errors import CannotWrite, UsageError
from moot.sim.writing import open_lines

HEAD = b'{"seed":0}'


@pytest.mark.parametrize(
    ("written", "lines", "left"),
    [
        (None, [], HEAD + b"\n"),
        (b"", [], HEAD + b"\n"),
        (HEAD[:5], [], HEAD + b"\n"),
        (HEAD + b"\n", [], HEAD + b"\n"),
        (HEAD + b"\none\ntwo\n", [b"one", b"two"], HEAD + b"\none\ntwo\n"),
        (HEAD + b"\none\ntw", [b"one"], HEAD + b"\none\n"),
    ],
)
def test_lines_are_read_and_a_torn_one_is_taken_away(
    written: bytes | None, lines: list[bytes], left: bytes, tmp_path: Path
) -> None:
    """Whatever its writer was at when it was killed, the file has whole lines afterwards."""
    path = tmp_path / "lines"
    if written is not None:
        path.write_bytes(written)
    assert open_lines(path, HEAD, "no") == lines
    assert path.read_bytes() == left


@pytest.mark.parametrize("written", [b"a note", b"a note\n", b'{"seed":1}\none\ntw', HEAD + b" "])
def test_another_file_is_refused_and_left_as_it_is(written: bytes, tmp_path: Path) -> None:
    """A file that begins otherwise keeps every byte, those of a torn line, too."""
    path = tmp_path / "lines"
    path.write_bytes(written)
    with pytest.raises(UsageError, match="not ours"):
        open_lines(path, HEAD, "not ours")
    assert path.read_bytes() == written


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A folder that is not there is said by the error, and not made."""
    with pytest.raises(CannotWrite):
        open_lines(tmp_path / "none" / "lines", HEAD, "no")
    assert not (tmp_path / "none").exists()
