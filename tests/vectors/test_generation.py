"""The vectors' files are what the generator makes, and it never contradicts an earlier result."""

from copy import deepcopy
from pathlib import Path

import pytest

from moot.offchain.arithmetic.ordered import ORDERED
from tests.quick import every
from tests.vectors.commitments import make_commitments
from tests.vectors.files import (
    FOLDER,
    VectorsChangedError,
    check_unchanged,
    get_facts,
    read,
    render,
    write,
)
from tests.vectors.generate import ARITHMETIC, CAPTURED


def test_every_file_is_generated() -> None:
    """No file in the folder has another origin, and none is missing."""
    assert {path.name for path in FOLDER.iterdir()} == {*ARITHMETIC, *CAPTURED}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_the_arithmetic_has_not_changed(name: str) -> None:
    """The code makes the very bytes of the file; where it does not, the message says what to do."""
    made = make_again(name)
    check_unchanged(name, read(name), made)
    assert render(made) + "\n" == (FOLDER / name).read_text(), (
        "python -m tests.vectors.generate makes it anew"
    )


def make_again(name: str) -> dict[str, object]:
    """Make a file's content anew."""
    return {**ARITHMETIC, **CAPTURED}[name]()


@pytest.mark.parametrize("name", every(6, CAPTURED))
def test_captured_programs_have_not_changed(name: str) -> None:
    """Capture and a run make the very bytes of the file: another lowering needs new vectors."""
    made = make_again(name)
    check_unchanged(name, read(name), made)
    assert render(made) + "\n" == (FOLDER / name).read_text(), (
        "python -m tests.vectors.generate makes it anew"
    )


@pytest.mark.parametrize("name", [*ARITHMETIC, *CAPTURED])
def test_files_carry_the_arithmetic(name: str) -> None:
    """Every file says of which arithmetic and version it speaks."""
    document = read(name)
    assert (document["arithmetic"], document["version"]) == (ORDERED.name, ORDERED.version)
    assert FOLDER.name == f"{ORDERED.name}-{ORDERED.version}"


def test_facts_are_unambiguous() -> None:
    """No vector is given twice, and there is one fact for each row of the scalars."""
    for name in {*ARITHMETIC, *CAPTURED}:
        document = read(name)
        count = sum(len(case.get("rows", [case])) for case in document["cases"])
        assert len(get_facts(document)) == count


def test_a_changed_result_is_refused(tmp_path: Path) -> None:
    """Other results for what is given are refused under the same version, and the file stays."""
    document = make_commitments()
    write("some.json", document, tmp_path)
    before = (tmp_path / "some.json").read_bytes()
    changed = deepcopy(document)
    changed["cases"][4]["expect"]["digest"] = "00" * 32
    with pytest.raises(VectorsChangedError, match="raise its version") as refusal:
        write("some.json", changed, tmp_path)
    assert len(refusal.value.changed) == 1
    assert (tmp_path / "some.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["some.json"]


def test_a_changed_scalar_is_refused() -> None:
    """One changed bit of one row is found among thousands, whatever the order."""
    document = read("scalars.json")
    changed = deepcopy(document)
    rows = changed["cases"][9]["rows"]
    operands, result = rows[5].rsplit(" ", 1)
    rows[5] = f"{operands} {int(result, 16) ^ 1:#010x}"
    rows.reverse()
    with pytest.raises(VectorsChangedError, match=r"^1 results of scalars"):
        check_unchanged("scalars.json", document, changed)


def test_new_vectors_and_new_versions_are_welcome(tmp_path: Path) -> None:
    """A file may grow, and another version may say something else."""
    document = make_commitments()
    fewer = deepcopy(document)
    del fewer["cases"][3]
    write("some.json", fewer, tmp_path)
    write("some.json", document, tmp_path)
    assert read("some.json", tmp_path) == document
    later = deepcopy(document)
    later["version"] += 1
    later["cases"][4]["expect"]["digest"] = "00" * 32
    check_unchanged("some.json", document, later)
