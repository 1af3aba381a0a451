"""Keystores, fees and budgets: what is refused, and what is paid at most."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.offchain.chain.accounts import FeePolicy, Fees, KeyAccount, create_keystore
from moot.offchain.chain.accounts.budget import calculate_reserve, find_shortage
from moot.offchain.chain.accounts.fees import calculate_fees, is_below, raise_fees
from moot.offchain.chain.accounts.journal import Journal
from moot.offchain.chain.accounts.keystore import find_exposure, read_address, read_password
from moot.offchain.chain.receipts import Address, Transaction
from moot.offchain.errors import KeystoreError, StoreError, UsageError

PASSWORD = "correct horse"  # noqa: S105 - of keystores in tests
WEI = st.integers(0, 10**15)


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keystore file."""
    path = tmp_path_factory.mktemp("keys") / "alice.json"
    create_keystore(path, PASSWORD, scrypt_n=2)
    return path


def test_keystore_opens_with_its_password(keystore: Path) -> None:
    """The account has the address that the file names, and only its owner may read the file."""
    assert KeyAccount.open(keystore, PASSWORD).address == read_address(keystore)
    assert keystore.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in keystore.parent.iterdir()] == [keystore.name]


def test_wrong_password_is_one_line(keystore: Path) -> None:
    """A wrong password is said to be wrong, and does not stand in the error or its causes."""
    with pytest.raises(KeystoreError, match="the password is wrong") as caught:
        KeyAccount.open(keystore, "hunter2")
    assert "\n" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__dict__)
    assert caught.value.__cause__ is None


def test_key_is_not_shown(keystore: Path) -> None:
    """Neither the text of an account nor a pickle has its key."""
    account = KeyAccount.open(keystore, PASSWORD)
    assert repr(account) == f"KeyAccount({account.address})"
    with pytest.raises(TypeError):
        account.__reduce__()


def test_existing_file_is_kept(keystore: Path) -> None:
    """A file that exists is never written over."""
    before = keystore.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        create_keystore(keystore, PASSWORD, scrypt_n=2)
    assert keystore.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"crypto": 1}', "\x00", "[" * 9999])
def test_damaged_keystore(tmp_path: Path, content: str) -> None:
    """A file that is no keystore is refused in one line."""
    (tmp_path / "x").write_text(content)
    with pytest.raises(KeystoreError, match="it is damaged, or no keystore"):
        KeyAccount.open(tmp_path / "x", PASSWORD)


def test_keystore_that_takes_all_memory(keystore: Path, tmp_path: Path) -> None:
    """A keystore whose key derivation takes gigabytes is refused before it is begun."""
    content = json.loads(keystore.read_text())
    content["crypto"]["kdfparams"]["n"] = 2**40
    (tmp_path / "x").write_text(json.dumps(content))
    with pytest.raises(KeystoreError, match="too much memory or time"):
        KeyAccount.open(tmp_path / "x", PASSWORD)


def test_passwords_come_from_files_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password is the first line of a file or a variable; any other source is refused unshown."""
    (tmp_path / "p").write_text("secret word\nmore\n")
    monkeypatch.setenv("ALICE", "secret")
    assert read_password(f"file:{tmp_path / 'p'}") == "secret word"
    assert read_password("env:ALICE") == "secret"
    for source in ("hunter2", "env:NOBODY_HAS_THIS", "file:/nowhere", "env:"):
        with pytest.raises(UsageError) as caught:
            read_password(source)
        assert "hunter2" not in str(caught.value)


@given(base=WEI, tip=st.integers(0, 10**10), ceiling=st.integers(10**10, 10**15))
def test_fees_have_a_ceiling(base: int, tip: int, ceiling: int) -> None:
    """No fee is above the ceiling, and a replacement is an eighth higher in both parts."""
    policy = FeePolicy(max_fee_wei=ceiling, tip_wei=tip)
    fees: Fees | None = calculate_fees(base, policy)
    while fees is not None:
        assert fees.tip_wei <= fees.max_fee_wei <= ceiling
        old, fees = fees, raise_fees(fees, base, policy)
        if fees is not None:
            assert 8 * fees.max_fee_wei >= 9 * old.max_fee_wei
            assert 8 * fees.tip_wei >= 9 * old.tip_wei
        if old.max_fee_wei == 0:
            break


@given(base=WEI, tip=st.integers(0, 10**10), more=st.integers(0, 10**15), old=WEI, paid=WEI)
@example(base=0, tip=8, more=0, old=0, paid=0)  # an eighth more is the ceiling
@example(base=0, tip=0, more=99, old=82, paid=0)  # it can be replaced once, and no more
def test_fees_are_what_the_rule_says(base: int, tip: int, more: int, old: int, paid: int) -> None:
    """Twice the base fee and a tip, an eighth above what is replaced; never above the ceiling.

    It is the ceiling where an eighth more would be above it.
    """
    policy = FeePolicy(max_fee_wei=tip + more + 1, tip_wei=tip)

    def leave_room(fee_wei: int) -> int:
        return fee_wei if 9 * fee_wei <= 8 * policy.max_fee_wei else policy.max_fee_wei

    highest = leave_room(2 * base + tip)
    assert calculate_fees(base, policy) == Fees(highest, min(tip, highest))
    least, least_tip = (-(-fee * 9 // 8) for fee in (old, paid))
    raised = raise_fees(Fees(old, paid), base, policy)
    if least > policy.max_fee_wei:
        assert raised is None
    else:
        raised_wei = leave_room(max(least, highest))
        assert raised == Fees(raised_wei, max(least_tip, min(tip, highest)))
    at_the_ceiling = FeePolicy(max_fee_wei=max(1, least), tip_wei=0)
    assert raise_fees(Fees(old, 0), 0, at_the_ceiling) == Fees(least, 0)
    assert not is_below(Fees(base, 0), base)
    assert is_below(Fees(base, 0), base + 1)


def test_a_policy_is_one_that_can_be_kept() -> None:
    """Fees are positive and include the tip, and what is waited for is at least a block."""
    assert FeePolicy() == FeePolicy(200 * 10**9, 10**9, stuck_blocks=3, confirmations=8)
    assert FeePolicy(1, 1, 1, 1)
    assert FeePolicy(1, 0)
    for wrong in ((0, 0), (1, 2), (1, -1), (1, 1, 0, 1), (1, 1, 1, 0)):
        with pytest.raises(UsageError):
            FeePolicy(*wrong)


def test_what_is_reserved_is_what_may_be_taken() -> None:
    """A transaction reserves its value and all its gas at its highest fee; the rest is short."""
    payee = Address("0x" + "0a" * 20)
    transaction = Transaction(1, "pay", payee, payee, b"", 7, 21_000)
    reserve_wei = calculate_reserve(transaction, Fees(3, 1))
    assert reserve_wei == 7 + 21_000 * 3
    assert find_shortage(2 * reserve_wei, [reserve_wei, reserve_wei]) == 0
    assert find_shortage(2 * reserve_wei - 1, [reserve_wei, reserve_wei]) == 1


def test_damaged_journal(keystore: Path, tmp_path: Path) -> None:
    """A journal that is damaged is not used; one whose last line is incomplete is."""
    account = KeyAccount.open(keystore, PASSWORD)
    Journal(tmp_path, account.address, 1, b"\x01" * 32).close()
    (path,) = tmp_path.glob("*.log")
    path.write_bytes(b'{"do": "sig')
    Journal(tmp_path, account.address, 1, b"\x01" * 32).close()
    assert not path.read_bytes()
    path.write_bytes(b'{"do": "told", "nonce": 3}\n')
    with pytest.raises(StoreError, match="line 1 of the journal"):
        Journal(tmp_path, account.address, 1, b"\x01" * 32)
    assert os.access(path, os.R_OK)


@pytest.mark.skipif(os.name != "posix", reason="the modes of files are POSIX's")
def test_keystores_open_to_others_are_named(tmp_path: Path) -> None:
    """A key is made for its owner alone; whatever more others may do, one line says so."""
    path = tmp_path / "alice.json"
    create_keystore(path, PASSWORD, scrypt_n=2)
    assert find_exposure(path) == find_exposure(tmp_path / "missing") == ""
    for mode in (0o640, 0o604, 0o620, 0o666):
        path.chmod(mode)
        assert f"mode {mode:03o}" in find_exposure(path)
        assert "\n" not in find_exposure(path)
