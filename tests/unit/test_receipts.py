"""Receipts: what is signed, the packed form, and a provider's book."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from moot.contracts.model.receipts import (
    MAX_WINDOW_BLOCKS,
    RECEIPT_TYPES,
    VOUCHER_TYPES,
    Domain,
    Receipt,
    Voucher,
    find_conflict,
    is_sound,
)
from moot.contracts.model.signatures import is_signed
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.errors import BondExhausted, ReceiptError, StoreError, UsageError
from moot.offchain.receipts.book import Book, BookReader
from moot.offchain.receipts.conflicts import find_fault
from moot.offchain.receipts.documents import read_receipt
from moot.offchain.receipts.packed import PACKED_BYTES, SignedReceipt
from tests.end_to_end.command import moot as run_moot
from tests.receipt_helpers import CLIENT, DOMAIN, make_key, make_provider, make_receipt, sign

WIDTHS = {"uint32": 32, "uint64": 64, "uint96": 96, "uint128": 128}


def draw_receipt(draw: random.Random) -> Receipt:
    """Return a receipt with any value in every field."""
    values: list[Any] = []
    for kind, _ in RECEIPT_TYPES:
        if kind == "bytes32":
            values.append(draw.randbytes(32))
        elif kind == "address":
            values.append(make_provider(draw.randrange(1, 5)))
        else:
            values.append(draw.choice([0, draw.getrandbits(WIDTHS[kind]), 2 ** WIDTHS[kind] - 1]))
    return Receipt(*values)


def hash_elsewhere(
    name: str, types: tuple[tuple[str, str], ...], struct: Any, domain: Domain
) -> bytes:
    """Return the EIP-712 digest that another library computes."""
    message = {
        field: getattr(struct, own.name)
        for (_, field), own in zip(types, fields(struct), strict=True)
    }
    signable = encode_typed_data(
        domain_data={
            "name": "Moot",
            "version": "1",
            "chainId": domain.chain_id,
            "verifyingContract": domain.service,
        },
        message_types={name: [{"name": field, "type": kind} for kind, field in types]},
        message_data=message,
    )
    return keccak256(b"\x19\x01" + signable.header + signable.body)


def test_digests_are_those_of_another_library() -> None:
    """EIP-712 as eth-account has it says the same of drawn receipts and vouchers."""
    draw = random.Random(1)
    for _ in range(50):
        receipt = draw_receipt(draw)
        assert receipt.hash(DOMAIN) == hash_elsewhere("Receipt", RECEIPT_TYPES, receipt, DOMAIN)
        voucher = Voucher(CLIENT, make_provider(), draw.getrandbits(128))
        assert voucher.hash(DOMAIN) == hash_elsewhere("Voucher", VOUCHER_TYPES, voucher, DOMAIN)


def test_every_field_is_signed() -> None:
    """Another value in any field, chain or service is another digest."""
    receipt = make_receipt()
    digests = {receipt.hash(DOMAIN)}
    for (kind, _), field in zip(RECEIPT_TYPES, fields(receipt), strict=True):
        value = {"bytes32": bytes(32), "address": make_provider(9)}.get(kind, 77)
        digests.add(replace(receipt, **{field.name: value}).hash(DOMAIN))
    digests |= {receipt.hash(replace(DOMAIN, chain_id=1))}
    digests |= {receipt.hash(replace(DOMAIN, service=CLIENT))}
    assert len(digests) == len(RECEIPT_TYPES) + 3


def test_packed_form_comes_back() -> None:
    """Unpacking and decoding give the receipt that was packed, in 450 bytes."""
    draw = random.Random(2)
    for _ in range(20):
        key = draw.randrange(1, 5)
        receipt = replace(draw_receipt(draw), provider=make_provider(key))
        signed = sign(receipt, key)
        assert len(signed.pack()) == PACKED_BYTES == 450
        assert SignedReceipt.unpack(signed.pack()) == signed
        assert SignedReceipt.decode(signed.encode()) == signed


def test_no_byte_can_be_changed() -> None:
    """A receipt with any byte changed is refused: it is not signed by whom it names."""
    packed = sign(make_receipt()).pack()
    draw = random.Random(3)
    for place in range(len(packed)):
        changed = bytearray(packed)
        changed[place] ^= 1 << draw.randrange(8)
        with pytest.raises(ReceiptError):
            SignedReceipt.unpack(bytes(changed))


@pytest.mark.parametrize(
    "text", ["", "AA", "nonsense!", "AQ==", sign(make_receipt()).encode()[:-4], "ä"]
)
def test_other_text_is_refused(text: str) -> None:
    """What is no receipt is refused in one line."""
    with pytest.raises(ReceiptError) as refusal:
        SignedReceipt.decode(text)
    assert "\n" not in str(refusal.value)


def test_signature_has_one_form() -> None:
    """The second signature that everybody can make of a first one is nobody's."""
    signed = sign(make_receipt())
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    s = order - int.from_bytes(signed.signature[32:64], "big")
    twin = signed.signature[:32] + s.to_bytes(32, "big") + bytes([55 - signed.signature[64]])
    assert is_signed(signed.digest, signed.signature, make_provider())
    assert Account._recover_hash(signed.digest, signature=twin) == make_provider()
    assert not is_signed(signed.digest, twin, make_provider())
    for bad in (bytes(65), bytes(64) + b"\x1b", b"\xff" * 32 + bytes(31) + b"\x01\x1b"):
        assert not is_signed(signed.digest, bad, make_provider())


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0},
        {"steps": 2**33, "checkpoint_every": 2**33},
        {"checkpoint_every": 13},
        {"state_slots": 0, "answer_slot": 0},
        {"operators": 8},
        {"operators": 2**20 + 1},
        {"batch_slots": 2**16 + 1},
        {"answer_slot": 9},
        {"window_blocks": 0},
        {"clock_blocks": 2**20 + 1},
        {"increment_blocks": 65},
        {"released_wei": 1},
        {"last_block": 99},
        {"last_block": 101 + MAX_WINDOW_BLOCKS},
    ],
)
def test_absurd_receipts_are_not_sound(changes: dict[str, int]) -> None:
    """No receipt is sound that a challenge could not decide, or that backs itself with nothing."""
    assert is_sound(make_receipt())
    assert not is_sound(make_receipt(**changes))


def test_a_digest_is_signed_as_others_sign_it() -> None:
    """The signature of a digest is that of the library that wallets use."""
    draw = random.Random(6)
    for _ in range(20):
        key, digest = draw.randbytes(32), draw.randbytes(32)
        expected = bytes(Account.unsafe_sign_hash(digest, key).signature)
        assert KeyAccount(key).sign_digest(digest) == expected


def issue(book: Book, block: int, stake: int, window: int = 10, bond: int = 10**30) -> Receipt:
    """Return the next receipt of a book."""
    draft = make_receipt(issued_block=block, last_block=block + window, stake_wei=stake)
    return book.issue(draft, bond, b"{}", make_key().sign_digest).receipt


def test_books_never_conflict(tmp_path: Path) -> None:
    """No two receipts of a book conflict, and what is open is what has not ended, over reopenings.

    Windows and stakes are drawn, and blocks may even go back, as in a reorganisation.
    """
    draw, receipts, block = random.Random(4), list[Receipt](), 100
    for _ in range(6):
        with Book(tmp_path, DOMAIN, make_provider()) as book:
            for _ in range(15):
                block = max(block + draw.choice([-2, 0, 1, 3, 9]), 0)
                stake, window = draw.randrange(1, 9), draw.randrange(1, 12)
                receipts.append(issue(book, block, stake, window))
    assert [it.number for it in receipts] == list(range(len(receipts)))
    for place, receipt in enumerate(receipts):
        earlier = receipts[:place]
        assert not any(find_conflict(it, receipt) for it in earlier)
        unended = sum(it.stake_wei for it in earlier if it.last_block >= receipt.issued_block)
        assert receipt.open_wei >= unended + receipt.stake_wei
        first = next((it for it in earlier if it.last_block >= receipt.issued_block), receipt)
        assert receipt.released_wei == first.total_wei - first.stake_wei


def test_conflicts_are_found() -> None:
    """A number used twice, a total that does not follow, and one released too early are found."""
    first = make_receipt(number=4, total_wei=10**18)
    stake = first.stake_wei
    right = replace(first, number=5, total_wei=10**18 + stake)
    assert not find_conflict(first, right)
    assert find_conflict(first, replace(first, history=bytes(32)))
    assert find_conflict(first, replace(right, total_wei=right.total_wei + 1))
    assert find_conflict(first, replace(right, total_wei=right.total_wei - 1))
    assert not find_conflict(first, replace(right, number=6, total_wei=right.total_wei + 1))
    assert find_conflict(first, replace(right, number=6, total_wei=right.total_wei - 1))
    early = replace(right, released_wei=10**18)
    assert find_conflict(first, early)
    assert not find_conflict(first, replace(early, issued_block=first.last_block + 1))


@pytest.mark.parametrize("seed", range(120))
def test_any_conflict_is_found(seed: int) -> None:
    """Among drawn receipts a conflict is found if and only if any two conflict."""
    draw = random.Random(seed)
    receipts, total = list[SignedReceipt](), 0
    for number in range(draw.randrange(2, 14)):
        stake = draw.randrange(1, 5)
        earlier, total = total, total + stake + draw.choice([0] * 20 + [1, -1])
        block = 100 + 4 * number
        changes = {
            "number": number + draw.choice([0] * 20 + [1]),
            "issued_block": block,
            "last_block": block + draw.choice([1, 2, 3, 25]),
            "stake_wei": stake,
            "total_wei": max(total, 0),
            "released_wei": draw.choice([0, 0, max(earlier - draw.randrange(9), 0)]),
        }
        if draw.random() < 0.85:
            receipts.append(sign(make_receipt(**changes)))
    draw.shuffle(receipts)
    pairs = [
        (first, second)
        for first in receipts
        for second in receipts
        if first != second and first.receipt.number <= second.receipt.number
        if find_conflict(first.receipt, second.receipt)
    ]
    found = find_fault(receipts)
    assert (found is not None) == bool(pairs)
    assert found is None or find_conflict(found[0].receipt, found[1].receipt)


def test_conflicts_are_of_one_provider() -> None:
    """Receipts of two providers prove nothing about either."""
    with pytest.raises(UsageError, match="several"):
        find_fault([sign(make_receipt()), sign(make_receipt(provider=make_provider(2)), 2)])


def test_bond_is_not_signed_away(tmp_path: Path) -> None:
    """A receipt is refused while those that have not ended leave too little of the bond."""
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        issue(book, 100, 6, bond=10)
        with pytest.raises(BondExhausted, match="leaves 4 wei"):
            issue(book, 110, 5, bond=10)
        assert issue(book, 110, 4, bond=10).number == 1
        assert issue(book, 111, 5, bond=10).released_wei == 6
        with pytest.raises(UsageError, match="nothing backs"):
            issue(book, 111, 0)
        with pytest.raises(UsageError, match="not sound"):
            issue(book, 111, 1, window=MAX_WINDOW_BLOCKS + 1)


def test_book_is_one_providers(tmp_path: Path) -> None:
    """Another service's or provider's book, and one that is in use, are refused."""
    with (
        Book(tmp_path, DOMAIN, make_provider()),
        pytest.raises(UsageError, match="another process"),
    ):
        Book(tmp_path, DOMAIN, make_provider())
    with pytest.raises(UsageError, match="choose another folder"):
        Book(tmp_path, DOMAIN, make_provider(2))
    with pytest.raises(UsageError, match="choose another folder"):
        Book(tmp_path, replace(DOMAIN, chain_id=5), make_provider())
    (tmp_path / "receipts.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(StoreError):
        Book(tmp_path, DOMAIN, make_provider())


def test_nothing_is_signed_that_is_not_kept(tmp_path: Path) -> None:
    """Where the disk refuses, no receipt comes out, and its number is free."""
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        issue(book, 100, 1)
        book._base.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreError):
            issue(book, 100, 1)
        book._base.execute("PRAGMA query_only=OFF")
        assert issue(book, 100, 1).number == 1


_SIGNER = """
import sys
from pathlib import Path
from moot.offchain.receipts.book import Book
from tests.receipt_helpers import DOMAIN, make_key, make_provider, make_receipt
with Book(Path(sys.argv[1]), DOMAIN, make_provider()) as book:
    while True:
        draft = make_receipt(stake_wei=3)
        signed = book.issue(draft, 10**30, b"{}", make_key().sign_digest)
        print(signed.encode(), flush=True)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_signer_uses_no_number_twice(tmp_path: Path, kills: int) -> None:
    """What a killed process has shown is in its book, and the next one's numbers follow."""
    draw, shown = random.Random(5), list[SignedReceipt]()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for _ in range(kills):
        command = [sys.executable, "-c", _SIGNER, str(tmp_path)]
        with subprocess.Popen(  # noqa: S603 - our own
            command, stdout=subprocess.PIPE, env=environment
        ) as process:
            assert process.stdout is not None
            for _ in range(draw.randrange(1, 30)):
                shown.append(SignedReceipt.decode(process.stdout.readline().strip().decode()))
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split(b"\n")[:-1]
            shown += [SignedReceipt.decode(line.decode()) for line in rest]
    kept = list(BookReader(tmp_path).list_from(0))
    numbers = [it.receipt.number for it in shown]
    assert numbers == sorted(set(numbers))
    assert [it.receipt.number for it in kept] == list(range(len(kept)))
    assert set(shown) <= set(kept)
    for earlier, later in pairwise(kept):
        assert not find_conflict(earlier.receipt, later.receipt)


def test_book_is_plain_sqlite(tmp_path: Path) -> None:
    """What is in a book can be read without us."""
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        issue(book, 100, 1)
    with sqlite3.connect(tmp_path / "receipts.sqlite") as base:
        assert base.execute("SELECT number, last_block FROM receipts").fetchall() == [(0, 110)]
    base.close()


def test_files_are_read_in_three_forms(tmp_path: Path) -> None:
    """JSON, a header's text and packed bytes give the receipt; other files are refused by name."""
    signed = sign(make_receipt())
    contents = [
        json.dumps({"receipt": signed.encode(), "answer": [1]}).encode(),
        signed.encode().encode() + b"\n",
        signed.pack(),
    ]
    for content in contents:
        (tmp_path / "r").write_bytes(content)
        assert read_receipt(tmp_path / "r") == signed
    for content in (b"{}", b"[1]", b"{", b'{"receipt": 5}', b"", b"{" * 10**6, b" " * 2**25):
        (tmp_path / "r").write_bytes(content)
        with pytest.raises(ReceiptError):
            read_receipt(tmp_path / "r")
    with pytest.raises(UsageError, match="cannot read"):
        read_receipt(tmp_path / "nothing")


def test_receipts_are_shown(tmp_path: Path) -> None:
    """`moot receipt show` shows a receipt, and ends with 3 if nobody can challenge it."""
    for changes, status in (({}, 0), ({"released_wei": 1}, 3)):
        signed = sign(make_receipt(**changes))
        (tmp_path / "r").write_bytes(signed.pack())
        shown = run_moot("receipt", "show", str(tmp_path / "r"), "--json")
        assert shown.status == status
        found = json.loads(shown.stdout)
        assert found["digest"] == f"0x{signed.digest.hex()}"
        assert found["provider"] == make_provider()
        assert found["is_sound"] == (status == 0)
        assert make_provider() in run_moot("receipt", "show", str(tmp_path / "r")).stdout
