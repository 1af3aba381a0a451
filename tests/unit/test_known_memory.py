"""What steps took the last time: it is known the next time, and says nothing when it is damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from moot import known_memory, session
from moot.offchain.providers.setting import Setting
from moot.session import prepare


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_need_is_known_by_what_was_asked_for() -> None:
    """The latest one counts, of this example alone."""
    assert known_memory.recall_need("a") == 0
    for size in (12, 12, 1 << 40):
        known_memory.keep_need("a", size)
        assert known_memory.recall_need("a") == size
    assert known_memory.recall_need("b") == 0


@pytest.mark.parametrize("content", [b"", b"-1", b"1e9", b"\xff"])
def test_what_is_no_number_of_bytes_is_unknown(content: bytes) -> None:
    """Nothing is touched for it."""
    known_memory.keep_need("a", 5)
    known_memory._needs.write(known_memory._name("a"), content)
    assert known_memory.recall_need("a") == 0


def test_a_file_that_is_cut_short_is_unknown() -> None:
    """A damaged file is as good as none."""
    known_memory.keep_need("a", 123)
    (path,) = known_memory._needs.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert known_memory.recall_need("a") == 0


@pytest.mark.slow
def test_the_second_dispute_touches_what_the_first_has_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so from the beginning; without trust nothing is touched, nor is it noted."""
    sizes: list[int] = []
    real = session.touching

    @contextmanager
    def touching(size: int) -> Iterator[None]:
        sizes.append(size)
        with real(size):
            yield

    monkeypatch.setattr(session, "touching", touching)
    setting = Setting("mlp", steps=1, checkpoint_every=1, cheat="none", trust_capture=True)
    found = [
        prepare(setting, tmp_path / name, lambda *_: None, is_durable=False) for name in ("a", "b")
    ]
    part, need = sizes[1], found[0].task.preparation.replacing.needed_bytes
    assert part > 0
    assert sizes == [0, part, need]
    for one in found:
        session.settle(one.runs.values())
    sizes.clear()
    prepare(replace(setting, trust_capture=False), tmp_path / "c", lambda *_: None)
    assert sizes == [0]
