"""The journal of an account under damage: it has all that was sent, or is not used."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

from moot.offchain.chain.accounts import Fees
from moot.offchain.chain.accounts.journal import Entry, Journal, Version
from moot.offchain.chain.receipts import Address, Transaction
from moot.offchain.errors import StoreError
from tests.parties.damage import DAMAGES, RESUMED, full_disk, require_one_line

ADDRESS, CHAIN_ID, GENESIS = Address("0x" + "11" * 20), 7, b"\x07" * 32
CALLS = ("commit", "reveal", "start_match", "descend")


def open_journal(folder: Path) -> Journal:
    """Open the journal that cases are about."""
    return Journal(folder, ADDRESS, CHAIN_ID, GENESIS)


def make_entry(nonce: int, random: Random) -> Entry:
    """Return a call under a nonce, which is not signed yet."""
    call, data = random.choice(CALLS), random.randbytes(random.randint(4, 60))
    return Entry(nonce, Transaction(CHAIN_ID, call, ADDRESS, ADDRESS, data, 5, 21_000), [])


def sign(journal: Journal, entry: Entry, random: Random) -> Version:
    """Note a version, and return it: whoever has that may send it."""
    version = Version(random.randbytes(100), Fees(random.randint(1, 9) * 10**9, 10**9))
    journal.sign(entry, version)
    return version


def write(folder: Path, random: Random, count: int = 3) -> list[bytes]:
    """Keep a journal for a while; return its lines."""
    with closing(open_journal(folder)) as journal:
        for nonce in range(count):
            entry = make_entry(nonce, random)
            for _ in range(random.randint(1, 2)):
                sign(journal, entry, random)
            live = journal.live[nonce]
            if random.random() < 0.6:
                journal.note_block(live, 10 + nonce, f"0x{nonce:064x}")
                journal.note("told", live)
                if random.random() < 0.5:
                    journal.note("final", live)
        return journal.path.read_bytes().splitlines(keepends=True)


def look(journal: Journal) -> tuple[object, ...]:
    """Return all that a journal knows."""
    entries = {
        nonce: (it.digest, [v.hash for v in it.versions], it.block, it.block_hash, it.told_hash)
        for nonce, it in (journal.live | journal.past).items()
    }
    return entries, {*journal.live}, journal.next_nonce, dict(journal.given_up)


def replay(folder: Path, lines: list[bytes]) -> tuple[object, ...]:
    """Return what a journal of these lines knows."""
    folder.mkdir()
    with closing(open_journal(folder)) as journal:
        path = journal.path
    path.write_bytes(b"".join(lines))
    with closing(open_journal(folder)) as journal:
        return look(journal)


def check_cut(folder: Path, lines: list[bytes], place: int) -> str:
    """Cut a journal off; it then knows the lines that were whole, and takes further ones."""
    with closing(open_journal(folder)) as journal:
        path = journal.path
    content = b"".join(lines)
    path.write_bytes(content[:place])
    ends = [sum(map(len, lines[: count + 1])) for count in range(len(lines))]
    whole = [line for line, end in zip(lines, ends, strict=True) if end - 1 <= place]
    with closing(open_journal(folder)) as journal:
        assert look(journal) == replay(folder / "whole", whole)
        nonce = journal.next_nonce or 0
        version = sign(journal, make_entry(nonce, Random(0)), Random(1))
    with closing(open_journal(folder)) as journal:
        assert journal.live[nonce].latest.hash == version.hash
    return RESUMED


def play_cut(folder: Path, random: Random) -> str:
    """A journal that ends early, as a process leaves it that is killed while it writes."""
    lines = write(folder, random)
    return check_cut(folder, lines, random.randrange(sum(map(len, lines)) + 1))


def play_damage(folder: Path, random: Random, how: str) -> str:
    """A journal with another bit, or something behind it: it knows all, or is left as it is."""
    lines = write(folder, random)
    (path,) = folder.glob("*.log")
    damaged = DAMAGES[how](path.read_bytes(), random)
    path.write_bytes(damaged)
    try:
        journal = open_journal(folder)
    except StoreError as error:
        assert path.read_bytes() == damaged
        return require_one_line(error)
    with closing(journal):
        assert look(journal) == replay(folder / "whole", lines)
    return RESUMED


def play_full(folder: Path, random: Random) -> str:
    """A disk that is full at a write: what could not be noted is not sent, all else is known."""
    write(folder, random)
    said = RESUMED
    with closing(open_journal(folder)) as journal:
        before = look(journal)
        entry = make_entry(journal.next_nonce or 0, random)
        sent: list[str] = []
        with full_disk(random.randrange(3)):
            try:
                sent.append(sign(journal, entry, random).hash)
            except StoreError as error:
                said = require_one_line(error)
        after = look(journal)
    assert sent or after == before
    with closing(open_journal(folder)) as journal:
        assert look(journal) == after
        entry = make_entry(journal.next_nonce or 0, random)
        sign(journal, entry, random)
    return said


KINDS: dict[str, Callable[[Path, Random], str]] = {
    "journal-cut": play_cut,
    "journal-flip": lambda folder, random: play_damage(folder, random, "flip"),
    "journal-tail": lambda folder, random: play_damage(folder, random, "tail"),
    "journal-full": play_full,
}
