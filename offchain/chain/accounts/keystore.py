"""Keystore files: a key under a password, in the third version of Ethereum's format."""

import getpass
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moot.offchain.chain.accounts.signers import Order
from moot.offchain.chain.receipts import Address
from moot.offchain.errors import CannotWrite, KeystoreError, UsageError

PRIVATE = 0o600
MOST_BYTES = 2**16
MOST_MEMORY = 2**30
"""Bytes that a keystore's key derivation may take; `MOST_ROUNDS` are those of a cheaper one."""
MOST_ROUNDS = 10**8
MOST_PASSWORD_BYTES = 2**12
SCRYPT_N = 2**18


class KeyAccount:
    """An account whose key is in this process; neither its text nor its errors show the key."""

    __slots__ = ("_key", "address")

    def __init__(self, key: bytes) -> None:
        from eth_account import Account  # noqa: PLC0415 - slow to import

        self._key = key
        self.address = Address(Account.from_key(key).address.lower())

    def __repr__(self) -> str:
        return f"KeyAccount({self.address})"

    def __reduce__(self) -> str:
        raise TypeError("a key does not leave its process")

    @classmethod
    def open(cls, path: Path, password: str) -> "KeyAccount":
        """Open a keystore file.

        Raises:
            KeystoreError: it is not there, is no keystore, or is too dear; the password is wrong.
        """
        from eth_account import Account  # noqa: PLC0415 - slow to import

        keystore = _read(path)
        try:
            key = bytes(Account.decrypt(keystore, password))
        except ValueError as error:
            # The chain of causes is cut: frames below hold the password.
            if "MAC" in str(error):
                raise KeystoreError(path, "the password is wrong") from None
            raise KeystoreError(path, "it is damaged, or no keystore of version 3") from None
        except Exception:  # noqa: BLE001 - hostile content fails in many ways
            raise KeystoreError(path, "it is damaged, or no keystore of version 3") from None
        account = cls(key)
        shown = keystore.get("address", account.address.removeprefix("0x"))
        if account.address.removeprefix("0x") != str(shown).lower().removeprefix("0x"):
            raise KeystoreError(path, "its address is not that of its key")
        return account

    def sign(self, order: Order) -> bytes:
        """See Signer."""
        from eth_account import Account  # noqa: PLC0415 - slow to import

        signed = Account.sign_transaction(order.list_fields(), self._key)
        return bytes(signed.raw_transaction)

    def sign_digest(self, digest: bytes) -> bytes:
        """Return the signature of a digest of 32 bytes: r, s in the lower half, and v, 65 bytes."""
        from coincurve import PrivateKey  # noqa: PLC0415 - slow to import

        from moot.contracts.model.signatures import FIRST_V  # noqa: PLC0415 - likewise

        signed = PrivateKey(self._key).sign_recoverable(digest, hasher=None)
        return signed[:64] + bytes([FIRST_V + signed[64]])


def create_keystore(path: Path, password: str, *, scrypt_n: int = SCRYPT_N) -> Address:
    """Make a key, and write it under a password to a file that did not exist; return its address.

    The file appears whole, and only its owner may read it.

    Raises:
        UsageError: the file exists, or the password is empty.
        CannotWrite: the operating system refuses.
    """
    from eth_account import Account  # noqa: PLC0415 - slow to import

    if not password:
        raise UsageError("the password is empty; choose one")
    key = secrets.token_bytes(32)
    address = KeyAccount(key).address
    keystore = Account.encrypt(key, password, kdf="scrypt", iterations=scrypt_n)
    _write_new(path, json.dumps(keystore, indent=1) + "\n")
    return address


def read_address(path: Path) -> Address:
    """Return the address that a keystore file says it has, without its password."""
    shown = str(_read(path).get("address", "")).lower().removeprefix("0x")
    try:
        if len(bytes.fromhex(shown)) == 20:
            return Address("0x" + shown)
    except ValueError:
        pass
    raise KeystoreError(path, "it names no address; open it with its password")


def find_exposure(path: Path) -> str:
    """Return a line if others than its owner may read or change a keystore file; or nothing."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return ""
    if os.name != "posix" or not mode & 0o077:
        return ""
    return (
        f"the keystore {path} is open to others than its owner (mode {mode:03o}): who reads it may "
        f"try passwords; chmod {PRIVATE:o} {path}"
    )


def read_password(source: str | None, ask: Callable[[str], str] = getpass.getpass) -> str:
    """Return a password from `file:PATH` (its first line), `env:NAME`, or, for None, a prompt.

    Raises:
        UsageError: the source is unknown or empty, or there is no terminal to ask on.
    """
    if source is None:
        if not sys.stdin.isatty() and ask is getpass.getpass:
            raise UsageError(
                "there is no terminal to ask for a password on; "
                "name a file or a variable that holds it: file:PATH or env:NAME"
            )
        return _require(ask("password: "), "what was typed")
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        return _require(os.environ.get(name, ""), f"the variable {name}")
    if kind == "file" and name:
        try:
            with Path(name).open("rb") as file:
                line = file.readline(MOST_PASSWORD_BYTES).decode()
        except (OSError, UnicodeError):
            raise UsageError(f"no password can be read from the file {name}") from None
        return _require(line.rstrip("\r\n"), f"the file {name}")
    raise UsageError("a password comes from file:PATH or env:NAME, never from the command line")


def _require(password: str, where: str) -> str:
    if not password:
        raise UsageError(f"no password is in {where}")
    return password


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a keystore file whose key derivation is affordable."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise KeystoreError(path, f"it cannot be read: {error.strerror}") from error
    try:
        keystore = json.loads(content)
        keys = {name.lower(): name for name in keystore}
        crypto = keystore[keys["crypto"]]
        cost = crypto["kdfparams"]
        memory = 128 * int(cost.get("n", 0)) * int(cost.get("r", 0)) * int(cost.get("p", 1))
        rounds = int(cost.get("c", 0))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise KeystoreError(path, "it is damaged, or no keystore of version 3") from None
    if len(content) > MOST_BYTES or memory > MOST_MEMORY or rounds > MOST_ROUNDS:
        raise KeystoreError(path, "to open it would take too much memory or time")
    return dict(keystore)


def _write_new(path: Path, text: str) -> None:
    """Write a file that did not exist, all of it or nothing, for its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        aside = Path(name)
        try:
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - of a descriptor
                os.fchmod(descriptor, PRIVATE)
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.link(aside, path)  # unlike a rename it fails where there is a file already
        finally:
            aside.unlink(missing_ok=True)
    except FileExistsError:
        raise UsageError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}; choose another place") from error
