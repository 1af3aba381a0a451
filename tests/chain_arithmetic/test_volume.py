"""Large volumes through the port: the records are of today's code, and errors would be seen."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moot.contracts.port import load as load_port
from moot.offchain.errors import Reverted
from tests.chain_arithmetic import volume
from tests.chain_arithmetic.rounding import load_changed
from tests.chain_arithmetic.subjects import SUBJECTS, TRANSCENDENTAL
from tests.quick import every, share

each_subject = pytest.mark.parametrize("name", every(8, SUBJECTS))


@each_subject
def test_the_record_is_of_this_code(name: str) -> None:
    """Today's code was tried on as many operands as there should be, and no result was wrong."""
    record = volume.load()[name]
    assert record["code"] == volume.get_code(name), f"the code has changed: try {name} again"
    assert record["vectors"] >= SUBJECTS[name].volume
    assert (record["wrong"], record["undecided"]) == (0, 0)


@pytest.mark.parametrize("name", every(16, SUBJECTS))
def test_a_part_of_the_volume(name: str) -> None:
    """The known operands and 200 others come out right."""
    count = share(200)
    found = volume.try_piece(name, 0, count)
    assert found.vectors > count
    assert (found.wrong, found.undecided, found.examples) == (0, 0, [])


@pytest.mark.slow
@each_subject
def test_a_larger_part_of_the_volume(name: str) -> None:
    """Others than those of the record come out right: 20,000."""
    found = volume.try_piece(name, 1 << 20, 20_000)
    assert (found.wrong, found.undecided, found.examples) == (0, 0, [])


def spoil(right: Callable[..., int], operand: int) -> Callable[..., int]:
    """Return a function whose result for one operand differs in its last bit."""
    return lambda x: right(x) ^ (x == operand)


@pytest.mark.parametrize("name", sorted(set(TRANSCENDENTAL) - {"pow"}))
def test_one_wrong_bit_is_found(name: str) -> None:
    """A result that differs in its last bit is counted, and shown with the right one."""
    subject = SUBJECTS[name]
    right = subject.load()
    vectors = subject.draw(np.random.default_rng(3), 50)
    operand = int(vectors[7, 0])
    found = volume.compare(spoil(right, operand), subject, vectors)
    assert found.wrong == np.count_nonzero(vectors == operand)
    assert found.examples[0] == ([operand], right(operand) ^ 1, right(operand))


def test_reverts_are_counted() -> None:
    """A call that reverts is undecided, neither right nor wrong."""
    subject = SUBJECTS["exp"]
    vectors = subject.draw(np.random.default_rng(3), 20)

    def revert(_: int) -> int:
        raise Reverted("", "exp")

    found = volume.compare(revert, subject, vectors)
    assert (found.vectors, found.wrong, found.undecided) == (20, 0, 20)


def test_pieces_are_reproducible() -> None:
    """A piece has the same operands whenever it is tried, and no other piece has them."""
    subject = SUBJECTS["pow"]
    first, again, other = (subject.draw(np.random.default_rng([1, n]), 100) for n in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.slow
def test_the_digest_is_of_what_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant far below changes the digest of those that use it; comments change nothing."""

    def get_digests() -> tuple[str, str]:
        volume.get_code.cache_clear()
        return volume.get_code("exp"), volume.get_code("rsqrt")

    def change(old: str, new: str, folder: Path) -> tuple[str, str]:
        folder.mkdir()
        load_changed("exponential", old, new, folder)
        with monkeypatch.context() as patch:
            patch.setattr(
                "tests.chain_arithmetic.subjects.load", lambda name: load_port(name, folder)
            )
            return get_digests()

    exp, rsqrt = get_digests()
    changed = change(
        "LEVELS: constant(uint256) = 12", "LEVELS: constant(uint256) = 13", tmp_path / "a"
    )
    assert changed[0] != exp
    assert changed[1] == rsqrt
    assert change("# ln 2 in units u", "# the natural logarithm of 2", tmp_path / "b") == (
        exp,
        rsqrt,
    )
    assert get_digests() == (exp, rsqrt)


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run records its findings, and `--table` shows what is recorded of today's code only."""
    path = tmp_path / "volume.json"
    run = ["--function", "exp", "rsqrt", "--count", "30", "--processes", "1"]
    assert volume.main(run, path) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == run[1:3]
    records = json.loads(path.read_text())
    assert records["exp"]["vectors"] == 30 + len(SUBJECTS["exp"].known())

    records["exp"]["code"] = "of another day"
    records["rsqrt"]["wrong"] = 1
    path.write_text(json.dumps(records))
    assert volume.main(["--table"], path) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["rsqrt"]
    with pytest.raises(SystemExit):
        volume.main(["--function", "sine"], path)
