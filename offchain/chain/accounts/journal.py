"""The journal: what an account has signed on a chain, on disk before it is sent.

    <folder>/<chain id>-<address>.lock            held by the one process that sends
    <folder>/<chain id>-<genesis>-<address>.log   a line of JSON for everything that happened,
                                                  which ends with a digest of the line

A line of a signed transaction is on the disk before the first node sees the transaction. A process
that is killed leaves at most its last line incomplete, and that one was never sent.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from moot.offchain.chain.accounts.fees import Fees
from moot.offchain.chain.accounts.signers import hash_raw
from moot.offchain.chain.receipts import Address, Transaction
from moot.offchain.errors import AccountBusy, ChainError, StoreError
from moot.offchain.files import flush_file, make_folder, replacing

COMPACTED_BYTES = 2**20
"""A journal that is longer is written anew, without what is long final, when it is opened."""
MOST_BYTES = 2**30
FOLDER_VARIABLE = "MOOT_STATE"
CHECK, CHECK_LETTERS = "check", 16
KEPT_BLOCKS = 512
"""So many blocks long what is final is kept, to be sent again after a reorganisation that deep."""


@dataclass(frozen=True, slots=True)
class Version:
    """A transaction as it was signed once; a replacement is another version with higher fees."""

    raw: bytes
    fees: Fees

    @property
    def hash(self) -> str:
        """The hash under which the chain knows it."""
        return hash_raw(self.raw)


@dataclass(slots=True)
class Entry:
    """A call under its nonce, in all versions, the latest last.

    Attributes:
        block: the block that has it, and `block_hash` that block's hash; None while none does.
        told_hash: the hash of the block that the caller knows of.
        looked: the head when it was sent last, and `signed` that when its latest version was made.
        is_final: whether it has its confirmations, and waits only for a caller who asks for it.
        missing: the head when its nonce was first found to be another's; None while it is not.
    """

    nonce: int
    transaction: Transaction
    versions: list[Version]
    block: int | None = None
    block_hash: str = ""
    told_hash: str = ""
    looked: int = -1
    signed: int = -1
    is_final: bool = False
    missing: int | None = None
    receipt: Any = field(default=None, repr=False)
    failure: ChainError | None = None

    @property
    def digest(self) -> bytes:
        """What tells the call from other calls."""
        return digest_call(self.transaction)

    @property
    def is_told(self) -> bool:
        """Whether the caller knows of the block that has it."""
        return self.block is not None and self.told_hash == self.block_hash

    @property
    def latest(self) -> Version:
        """The version that pays most."""
        return self.versions[-1]


def digest_call(transaction: Transaction) -> bytes:
    """Return a digest of what a transaction does, whatever its nonce and fees."""
    it = transaction
    words = (str(it.chain_id), it.sender, it.to or "", str(it.value_wei), it.data.hex())
    return sha256("|".join(words).encode()).digest()


def find_folder() -> Path:
    """Return where the journals of this user are, the same for all programs on this machine."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "moot" / "accounts"


class Journal:
    """The journal of an account on a chain, which no other process may open meanwhile.

    Attributes:
        live: the entries that are not final, by nonce.
        past: those that were final in the latest KEPT_BLOCKS blocks, by nonce.
        given_up: the fees that a transaction under a nonce has to exceed by an eighth, because
            another was given up there that somebody may still hold.
        next_nonce: the nonce after the highest that was ever used; None as long as none was.

    Raises:
        AccountBusy: another process has it open.
        StoreError: it cannot be read or written, or is damaged.
    """

    def __init__(self, folder: Path, address: Address, chain_id: int, genesis: bytes) -> None:
        stem = f"{chain_id}-{genesis.hex()[:16]}-{address}"
        self.path = folder / f"{stem}.log"
        self.live: dict[int, Entry] = {}
        self.past: dict[int, Entry] = {}
        self.given_up: dict[int, Fees] = {}
        self.next_nonce: int | None = None
        self._file: Any = None
        with _reporting(self.path):
            make_folder(folder, 0o700)
            self._lock = _take_lock(folder / f"{chain_id}-{address}.lock", address, chain_id)
        try:
            with _reporting(self.path):
                self._load(chain_id, address)
                self._file = self.path.open("ab", buffering=0)
                flush_file(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others open it."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.close()

    def sign(self, entry: Entry, version: Version) -> None:
        """Note a version, on the disk, before it is sent."""
        it = entry.transaction
        record = {
            "do": "signed",
            "nonce": entry.nonce,
            "call": it.call,
            "digest": entry.digest.hex(),
            "hash": version.hash,
            "max_fee_wei": version.fees.max_fee_wei,
            "tip_wei": version.fees.tip_wei,
            "to": it.to,
            "value_wei": it.value_wei,
            "gas_limit": it.gas_limit,
            "data": it.data.hex(),
            "raw": version.raw.hex(),
        }
        self._append(record, is_urgent=True)
        self._apply(record, it.sender, it.chain_id)

    def note_block(self, entry: Entry, block: int, block_hash: str) -> None:
        """Note that a block has an entry."""
        record = {"do": "mined", "nonce": entry.nonce, "block": block, "hash": block_hash}
        self._append(record)
        entry.block, entry.block_hash = block, block_hash

    def note(self, what: str, entry: Entry) -> None:
        """Note that an entry is `told` to its caller, `lost` from its block, `final`, `taken`.

        What is final is past, and lives again when it is lost. Taken is an entry under whose nonce
        the chain has another transaction for good, and given `up` one that nodes refuse: what comes
        after it under that nonce must pay more.
        """
        record = {"do": what, "nonce": entry.nonce}
        self._append(record)
        self._apply(record, entry.transaction.sender, entry.transaction.chain_id)

    def drop_past(self, head: int) -> None:
        """Forget what no reorganisation that is mended can undo, with this latest block."""
        for nonce in [nonce for nonce, it in self.past.items() if not _is_kept(it, head)]:
            del self.past[nonce]

    def _append(self, record: dict[str, Any], *, is_urgent: bool = False) -> None:
        line = _encode(record) + b"\n"
        with _reporting(self.path):
            end = os.fstat(self._file.fileno()).st_size
            try:
                _write_all(self._file, line)
                if is_urgent:
                    os.fsync(self._file.fileno())
            except OSError:
                os.ftruncate(self._file.fileno(), end)
                raise

    def _load(self, chain_id: int, address: Address) -> None:
        """Read what is there, drop an incomplete last line, and write anew what has grown long."""
        if not self.path.exists():
            return
        if self.path.stat().st_size > MOST_BYTES:
            raise StoreError(f"the journal {self.path} is too long to be one; move it away")
        *lines, last = self.path.read_bytes().split(b"\n")
        whole = lines + [end for end in (last, last[:-1]) if _is_line(end)][:1]
        for number, line in enumerate(whole, 1):
            try:
                self._apply(_decode(line), address, chain_id)
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                raise StoreError(
                    f"line {number} of the journal {self.path} is damaged; "
                    "move it away once no transaction of the account is waiting"
                ) from error
        if last:
            self._rewrite(whole)
        if self.path.stat().st_size > COMPACTED_BYTES:
            self._compact()

    def _apply(self, record: dict[str, Any], sender: Address, chain_id: int) -> None:
        """Change the entries as a record says."""
        nonce, what = int(record["nonce"]), record["do"]
        if what == "signed":
            self._apply_signed(record, nonce, sender, chain_id)
            return
        if what == "lost" and nonce in self.past:
            self.live[nonce] = self.past.pop(nonce)
        entry = self.live[nonce]
        if what == "mined":
            entry.block, entry.block_hash = int(record["block"]), str(record["hash"])
        elif what == "told":
            entry.told_hash = entry.block_hash
        elif what == "lost":
            entry.block, entry.block_hash, entry.receipt, entry.is_final = None, "", None, False
        elif what in {"final", "taken", "up"}:
            del self.live[nonce]
            self.given_up.pop(nonce, None)
            if what == "final":
                self.past[nonce] = entry
            if what == "up":
                self.given_up[nonce] = entry.latest.fees
        else:
            raise ValueError(what)

    def _apply_signed(
        self, record: dict[str, Any], nonce: int, sender: Address, chain_id: int
    ) -> None:
        fees = Fees(int(record["max_fee_wei"]), int(record["tip_wei"]))
        version = Version(bytes.fromhex(record["raw"]), fees)
        if version.hash != record["hash"]:
            raise ValueError(record["hash"])
        self.next_nonce = max(self.next_nonce or 0, nonce + 1)
        if nonce in self.live:
            self.live[nonce].versions.append(version)
            return
        transaction = Transaction(
            chain_id=chain_id,
            call=str(record["call"]),
            sender=sender,
            to=None if record["to"] is None else Address(record["to"]),
            data=bytes.fromhex(record["data"]),
            value_wei=int(record["value_wei"]),
            gas_limit=int(record["gas_limit"]),
        )
        self.live[nonce] = Entry(nonce, transaction, [version])

    def _compact(self) -> None:
        """Write the journal anew, with the lines of entries that live or may live again only."""
        blocks = [it.block for it in (self.live | self.past).values() if it.block is not None]
        self.drop_past(max(blocks, default=0))
        lines = [line for line in self.path.read_bytes().splitlines() if self._is_live(line)]
        self._rewrite(lines)

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        """Write the journal anew, of these lines."""
        with replacing(self.path, is_durable=True) as draft:
            draft.touch(mode=0o600)
            draft.write_bytes(b"".join(line + b"\n" for line in lines))

    def _is_live(self, line: bytes) -> bool:
        nonce = int(json.loads(line)["nonce"])
        is_kept = nonce in self.live or nonce in self.past or nonce in self.given_up
        return is_kept or nonce + 1 == self.next_nonce


def _encode(record: dict[str, Any]) -> bytes:
    """Return the line of a record, without its end; a digest of the rest is the last in it."""
    check = sha256(json.dumps(record).encode()).hexdigest()[:CHECK_LETTERS]
    return json.dumps(record | {CHECK: check}).encode()


def _decode(line: bytes) -> dict[str, Any]:
    """Return the record of a line; an error of Python's if it is not what was written."""
    record: dict[str, Any] = json.loads(line)
    del record[CHECK]
    if _encode(record) != line:
        raise ValueError(line)
    return record


def _is_line(line: bytes) -> bool:
    """Whether a line was written whole; its end may be missing, or be damaged."""
    with suppress(KeyError, RecursionError, TypeError, ValueError):
        return bool(_decode(line))
    return False


def _is_kept(entry: Entry, head: int) -> bool:
    """Whether a final entry is among the latest blocks up to this one."""
    return entry.block is not None and entry.block > head - KEPT_BLOCKS


def _take_lock(path: Path, address: Address, chain_id: int) -> Any:
    """Return the lock's file, open, or raise AccountBusy."""
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(20).decode("ascii", "replace").strip()
        file.close()
        raise AccountBusy(address, chain_id, holder) from None
    file.truncate(0)
    file.write(b"%d\n" % os.getpid())
    file.flush()
    return file


def _write_all(file: Any, line: bytes) -> None:
    """Write a whole line, or raise OSError: a disk that is full takes a part of it."""
    if file.write(line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the journal {path} cannot be kept: {error.strerror}; nothing was sent that is not "
            "in it; free space or correct the folder's permissions"
        ) from error
