"""A provider's book: every receipt that it has signed, on the disk before anybody sees it.

Numbers follow each other without a gap, and totals from each other, whoever is killed and whenever:
a number is used when its receipt is in the book, in one transaction that is on the disk, and the
signature leaves after that. What is not in the book was never shown to anybody.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Self

from moot.contracts.model.receipts import Domain, Receipt, is_sound
from moot.contracts.model.types import Address
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import BondExhausted, MootError, StoreError, UsageError
from moot.offchain.files import held_alone, make_folder
from moot.offchain.receipts.packed import SignedReceipt

Sign = Callable[[Digest], bytes]
"""Signs a digest: (32 bytes) -> 65 bytes, r, s and v."""

FILE = "receipts.sqlite"
MOST_ANSWERS = 100_000
"""Answers that are kept, of some kilobytes each."""
MOST_LISTED = 1 << 20
"""Receipts that are listed at once."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS owner (chain_id INTEGER, service TEXT, provider TEXT);
CREATE TABLE IF NOT EXISTS receipts (
    number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, last_block INTEGER NOT NULL,
    start_root BLOB NOT NULL, packed BLOB NOT NULL, request BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS starts ON receipts (start_root);
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, document BLOB NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What whoever asks for a receipt later is told beside it.

    Attributes:
        name: what it is known by.
        document: what it says.
    """

    name: str
    document: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """A receipt in a book.

    Attributes:
        signed: the receipt.
        request: what its provider needs to run it again, as the provider wrote it.
    """

    signed: SignedReceipt
    request: bytes


class BookReader:
    """The receipts in a book, for whoever only reads; another process may write it meanwhile.

    Args:
        folder: where the book is.

    Raises:
        UsageError: there is none.
        StoreError: it can't be read.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        if not path.is_file():
            raise UsageError(f"no receipts are in {folder}; give the folder of `moot serve`")
        try:
            self._base = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
            self._base.execute("SELECT number FROM receipts LIMIT 1")
        except sqlite3.Error as error:
            raise StoreError(f"cannot read the receipts in {folder}: {error}") from error

    def close(self) -> None:
        """Give the file up."""
        self._base.close()

    def find_start(self, start_root: Digest) -> list[Entry]:
        """Return the receipts of runs that began with a state."""
        query = "SELECT packed, request FROM receipts WHERE start_root = ? ORDER BY number"
        rows = self._base.execute(query, (start_root,)).fetchall()
        return [Entry(SignedReceipt.unpack(row[0]), row[1]) for row in rows]

    def list_from(self, number: int, count: int = MOST_LISTED) -> Iterator[SignedReceipt]:
        """Yield receipts in the order of their numbers, from one number on."""
        query = "SELECT packed FROM receipts WHERE number >= ? ORDER BY number LIMIT ?"
        rows = self._base.execute(query, (number, count)).fetchall()
        return (SignedReceipt.unpack(row[0]) for row in rows)

    def find_answer(self, name: str) -> tuple[SignedReceipt, bytes] | None:
        """Return a receipt and the document of its answer, if they are in the book."""
        return _find_answer(self._base, name)

    def list_newest(self, count: int = 64) -> list[Entry]:
        """Return the newest receipts, the last one first."""
        query = "SELECT packed, request FROM receipts ORDER BY number DESC LIMIT ?"
        rows = self._base.execute(query, (count,)).fetchall()
        return [Entry(SignedReceipt.unpack(row[0]), row[1]) for row in rows]


class Book:
    """The receipts of one provider at one service, in a file that one process holds.

    Its methods may be called from several threads.

    Args:
        folder: where the book is; it is made.
        domain: the service.
        provider: whose receipts they are.
        most_answers: how many of the newest receipts keep their answers.

    Raises:
        UsageError: another process has the book, or it is another provider's or service's.
        StoreError: it can't be read or written.
    """

    def __init__(
        self,
        folder: Path,
        domain: Domain,
        provider: Address,
        most_answers: int = MOST_ANSWERS,
    ) -> None:
        make_folder(folder, 0o700)
        self.domain, self.provider = domain, provider
        self._most_answers = most_answers
        self._lock, self._stack = Lock(), ExitStack()
        if not self._stack.enter_context(held_alone(folder / ".lock")):
            self._stack.close()
            raise UsageError(f"another process signs receipts with {folder}; stop it first")
        try:
            self._open(folder / FILE)
        except sqlite3.Error as error:
            self._stack.close()
            raise StoreError(f"cannot open the receipts in {folder}: {error}") from error
        except MootError:
            self._stack.close()
            raise

    def _open(self, path: Path) -> None:
        # Each transaction is committed, and on the disk, when its statement returns.
        base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._stack.callback(base.close)
        self._base = base
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=FULL")
        base.executescript(_SCHEMA)
        own = (self.domain.chain_id, self.domain.service, self.provider)
        found = base.execute("SELECT chain_id, service, provider FROM owner").fetchone()
        if found is None:
            base.execute("INSERT INTO owner VALUES (?, ?, ?)", own)
        elif found != own:
            raise UsageError(
                f"the receipts in {path.parent} are of {found[2]} at service {found[1]} on chain "
                f"{found[0]}; choose another folder"
            )
        self._newest = self._fetch("ORDER BY number DESC LIMIT 1")
        # The first one that had not ended, and the block as of which it was looked for.
        self._first_open: tuple[int, Receipt | None] = 0, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the book."""
        self._stack.close()

    @property
    def is_new(self) -> bool:
        """Whether nothing was signed with it as yet."""
        return self._newest is None

    def require_published(self, count: int) -> None:
        """Refuse to sign where a copy of this book has signed more, as the chain shows.

        Args:
            count: how many of the provider's receipts are published.

        Raises:
            UsageError: the book lacks some: the next receipt would have a number that is used.
        """
        known = self._newest.number + 1 if self._newest else 0
        if known < count:
            raise UsageError(
                f"{count} receipts of {self.provider} are published, and this book has {known}: to "
                "use a number twice costs the whole bond; give the folder that has signed them, or "
                "another --key"
            )

    def issue(
        self,
        draft: Receipt,
        bond_wei: int,
        request: bytes,
        sign: Sign,
        answer: Answer | None = None,
    ) -> SignedReceipt:
        """Number a receipt, sign it, and return it once it is on the disk.

        Args:
            draft: the receipt; its number and its totals are the book's.
            bond_wei: what stands of the provider's bond up to the receipt's last block.
            request: what is needed to run it again.
            sign: signs with the provider's key.
            answer: what is kept beside it.

        Raises:
            BondExhausted: the bond does not cover it beside those that have not ended.
            UsageError: no challenge of it could be decided.
            StoreError: it can't be written; then it is not signed.
        """
        if draft.stake_wei < 1:
            raise UsageError("nothing backs this receipt; stake 1 wei on it at least")
        with self._lock:
            numbered = self._number(draft)
            if not is_sound(numbered):
                raise UsageError("nobody could challenge this receipt: its terms are not sound")
            if numbered.open_wei > bond_wei:
                free = max(bond_wei - numbered.open_wei + numbered.stake_wei, 0)
                raise BondExhausted(
                    f"the bond leaves {free} wei for new receipts, and this one stakes "
                    f"{numbered.stake_wei}; stake more, or wait for others to end"
                )
            signature = sign(numbered.hash(self.domain))
            signed = SignedReceipt(self.domain, numbered, signature)
            try:
                self._write(signed, request, answer)
            except sqlite3.Error as error:
                raise StoreError(f"cannot write a receipt: {error}") from error
            self._newest = numbered
            return signed

    def _write(self, signed: SignedReceipt, request: bytes, answer: Answer | None) -> None:
        """Write all of a receipt, or nothing."""
        receipt, base = signed.receipt, self._base
        row = receipt.number, signed.digest, receipt.last_block, receipt.start_root
        with base:
            base.execute("BEGIN")
            base.execute(
                "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?)", (*row, signed.pack(), request)
            )
            if answer is not None:
                kept = receipt.number, answer.name, answer.document
                base.execute("INSERT INTO answers VALUES (?, ?, ?)", kept)
                oldest = receipt.number - self._most_answers
                base.execute("DELETE FROM answers WHERE number <= ?", (oldest,))

    def _number(self, draft: Receipt) -> Receipt:
        """Return a draft as the next receipt: its number, the total, and what has ended."""
        newest = self._newest
        before = newest.total_wei if newest else 0
        first = self._find_open(draft.issued_block)
        return replace(
            draft,
            number=newest.number + 1 if newest else 0,
            provider=self.provider,
            total_wei=before + draft.stake_wei,
            released_wei=first.total_wei - first.stake_wei if first else before,
        )

    def _find_open(self, block: int) -> Receipt | None:
        """Return the first receipt that has not ended before a block.

        Those before the one that was found last are not looked at again, unless blocks go back.
        """
        seen, first = self._first_open
        if first is None or block < seen or first.last_block < block:
            start = first.number if first and block >= seen else 0
            first = self._fetch(
                "WHERE number >= ? AND last_block >= ? ORDER BY number LIMIT 1", start, block
            )
        self._first_open = block, first
        return first

    def _fetch(self, where: str, *values: object) -> Receipt | None:
        query = f"SELECT packed FROM receipts {where}"  # noqa: S608 - of texts of ours
        row = self._base.execute(query, values).fetchone()
        return SignedReceipt.unpack(row[0], is_own=True).receipt if row else None

    def find_answer(self, name: str) -> tuple[SignedReceipt, bytes] | None:
        """Return a receipt and the document of its answer, if they are in the book."""
        with self._lock:
            return _find_answer(self._base, name)


def _find_answer(base: sqlite3.Connection, name: str) -> tuple[SignedReceipt, bytes] | None:
    query = "SELECT packed, document FROM answers JOIN receipts USING (number) WHERE name = ?"
    row = base.execute(query, (name,)).fetchone()
    return (SignedReceipt.unpack(row[0]), row[1]) if row else None
