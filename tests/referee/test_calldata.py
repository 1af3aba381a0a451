"""Whatever the contract of promises accepts can be read from the calldata that showed it."""

from collections.abc import Callable

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import pack_args
from moot.offchain.chain.codec import Codec
from moot.offchain.disputes.availability.calldata import read_shown
from moot.offchain.disputes.availability.demands import Place, find_answer
from tests.referee.promises import TASK, Promises
from tests.referee.stage import CLIENT, PROVIDERS

HEAD = 4 + 9 * 32
"""The selector and the subject."""
OPERATOR: Place = (0, 1, 0)
CHUNK: Place = (1, 0, 1)
SINGLE: Place = (1, 2, 0)
"""An operator; a ragged chunk; the one chunk of a number, whose proof in its tensor is empty."""
EMPTY: Place = (1, 1, 0)
ZEROS: Place = (2, 1, 0)


def encode(both: Promises, place: Place) -> bytes:
    """Return the calldata that shows a place, as everybody encodes it."""
    move = find_answer(TASK, place)
    return both.contract.codec.encode_call(move.call, pack_args((both.subject, *move.args)))


def soil(data: bytes) -> bytes:
    """Fill the padding behind bytes with something: behind an encoding, or behind a chunk."""
    found = bytearray(data)
    for at in range(HEAD, len(found) - 32, 32):
        size = int.from_bytes(found[at : at + 32], "big")
        end = at + 32 + size
        is_data = 8 < size < 400 and size % 32 and end < len(found)
        if is_data and not any(found[end : at + 32 + -(-size // 32) * 32]):
            found[end] = 0xEE
    return bytes(found)


def append(data: bytes) -> bytes:
    """Let something follow."""
    return data + b"\x01" * 77


def end_early(data: bytes) -> bytes:
    """Put the first bytes of an argument at the end, and leave out the zeros behind them."""
    words = [data[at : at + 32] for at in range(4, len(data), 32)]
    place = next(n for n in range(10, 16) if 320 < int.from_bytes(words[n], "big") < len(data))
    at = 4 + int.from_bytes(words[place], "big")
    end = at + 32 + int.from_bytes(data[at : at + 32], "big")
    words[place] = (len(data) - 4).to_bytes(32, "big")
    return data[:4] + b"".join(words) + data[at:end].rstrip(b"\0")


def point_into_head(data: bytes) -> bytes:
    """Let offsets to proofs that are empty point to a word of the head that is zero."""
    words = [data[at : at + 32] for at in range(4, len(data), 32)]
    zero = next((n for n in range(9, len(words)) if not any(words[n])), 0)
    for place in range(9, 16):
        offset = int.from_bytes(words[place], "big")
        at = offset // 32
        if 9 < at < len(words) and offset % 32 == 0 and not any(words[at]):
            words[place] = (32 * zero).to_bytes(32, "big")
    return data[:4] + b"".join(words)


def move_back(data: bytes) -> bytes:
    """Put the last dynamic argument behind a gap."""
    words = [data[at : at + 32] for at in range(4, len(data), 32)]
    offsets = [n for n in range(9, 16) if 320 < int.from_bytes(words[n], "big") < len(data)]
    last = max(offsets, key=lambda n: int.from_bytes(words[n], "big"))
    at = int.from_bytes(words[last], "big")
    words[last] = (at + 7).to_bytes(32, "big")
    whole = b"".join(words)
    return data[:4] + whole[:at] + b"\xaa" * 7 + whole[at:]


@pytest.mark.parametrize("place", [OPERATOR, CHUNK, SINGLE, EMPTY, ZEROS], ids=str)
@pytest.mark.parametrize("change", [bytes, soil, append, end_early, point_into_head, move_back])
def test_what_the_contract_accepts_is_read(change: Callable[[bytes], bytes], place: Place) -> None:
    """However strangely it is encoded: nobody is paid for a part that only he can read."""
    both = Promises()
    assert both.promise() is None
    assert both.demand(PROVIDERS[0], place) is None
    right = encode(both, place)
    data = change(right)
    result = both.machine.call(
        both.contract.raw, data, sender=CLIENT, value_wei=0, block=both.block
    )
    assert result.reason is None
    assert len([*read_shown(right, both.subject)]) == 1
    assert [*read_shown(data, both.subject)] == [*read_shown(right, both.subject)]


def test_both_contracts_that_are_shown_parts_are_read() -> None:
    """The contract of premiums takes chunks by the same call as that of promises."""
    args = pack_args((Promises().subject, *find_answer(TASK, CHUNK).args))
    one, two = (
        Codec(compile_contract(name).abi).encode_call("show_chunk", args)
        for name in ("availability", "delivery")
    )
    assert one == two
