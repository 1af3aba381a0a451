"""The file of a record: what was written is read again, and nothing else is taken for one."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from moot.offchain.errors import UsageError
from moot.offchain.record import schema as records
from moot.offchain.record.schema import Record, decode_record, encode_record, read_record
from moot.sim.viewer.page import make_page
from tests.record_helpers import make_small_record


@pytest.fixture(scope="module")
def record() -> Record:
    """A small record."""
    return make_small_record()


def test_a_record_is_read_as_it_was_written(record: Record, tmp_path: Path) -> None:
    """Nothing is lost on the way through a file, and the same record is the same bytes."""
    path = tmp_path / "record.json"
    path.write_bytes(encode_record(record))
    assert read_record(path) == record
    assert encode_record(read_record(path)) == path.read_bytes()


def spoil_version(plain: dict[str, Any]) -> None:
    """Raise the version."""
    plain["version"] = 2


def spoil_format(plain: dict[str, Any]) -> None:
    """Name another format."""
    plain["format"] = "another"


def spoil_field(plain: dict[str, Any]) -> None:
    """Add a field that no frame has."""
    plain["frames"][0]["more"] = 1


def spoil_number(plain: dict[str, Any]) -> None:
    """Put a text where a number belongs."""
    plain["frames"][0]["block"] = "<b>"


def spoil_sign(plain: dict[str, Any]) -> None:
    """Put a negative number where none may be."""
    plain["head"] = -1


def spoil_parts(plain: dict[str, Any]) -> None:
    """Open more parts than any move does."""
    opening = next(frame["opening"] for frame in plain["frames"] if "opening" in frame)
    opening["starts"] = list(range(10_000))


def spoil_amount(plain: dict[str, Any]) -> None:
    """Put something else where an amount of wei belongs."""
    plain["frames"][0]["jobs"][0]["bond_wei"] = "1e18"


def spoil_opening(plain: dict[str, Any]) -> None:
    """Open no part at all."""
    opening = next(frame["opening"] for frame in plain["frames"] if "opening" in frame)
    opening["starts"] = []


SPOILERS = {
    spoil_amount: "bond_wei",
    spoil_opening: "starts",
    spoil_version: "is a record of version 2",
    spoil_format: "is no record of a court",
    spoil_field: "unknown field `more`",
    spoil_number: "$.frames[0].block",
    spoil_sign: "$.head",
    spoil_parts: "starts",
}


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda it: it.__name__)
def test_what_is_no_record_is_refused(record: Record, spoil: Any) -> None:
    """A file of another version, or with anything that no record has, is refused in one line."""
    plain = msgspec.to_builtins(record)
    spoil(plain)
    with pytest.raises(UsageError) as refused:
        decode_record(msgspec.json.encode(plain), "file.json")
    assert SPOILERS[spoil] in str(refused.value)
    assert str(refused.value).startswith("file.json is ")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null", b'{"format": 3}']
)
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    """Whatever a file holds, it is a record or an error of ours."""
    with pytest.raises(UsageError, match=r"^x is no record of a court"):
        decode_record(data, "x")


def test_a_file_too_long_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at the bound, and says so."""
    path = tmp_path / "long.json"
    path.write_bytes(b" " * 1001)
    monkeypatch.setattr(records, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="longer than the 1,000 bytes"):
        read_record(path)


def test_a_page_is_the_same_bytes_for_the_same_record(record: Record) -> None:
    """A page has no time, no path and no draw in it; a live one may ask its own server."""
    page = make_page(record)
    assert page == make_page(record)
    assert "connect-src 'none'" in page.replace("&#39;", "'")
    live = make_page(record, is_live=True).replace("&#39;", "'")
    assert "connect-src 'self'" in live
    assert "unsafe-inline" not in page
