"""The salt of a claim, without which nobody can reveal it: kept twice, and before it is sent."""

import secrets
from collections.abc import Container
from contextlib import suppress

from moot.offchain.errors import DamagedFile, StoreError
from moot.offchain.providers.store import Store

SALT_BYTES = 32
COPIES = ("member", "member-copy")
"""The notes that hold a salt; each counts by itself."""


def find_salt(store: Store) -> bytes | None:
    """Return the salt of a job's claim, None if there was never one.

    A copy that is lost or damaged is written again, as far as the disk has room.

    Raises:
        DamagedFile: no copy is whole.
        StoreError: the disk fails.
    """
    found = _read_copies(store)
    if not found:
        return None
    salt = next(iter(found.values()))
    with suppress(StoreError):
        _put_missing(store, salt, found)
    return bytes.fromhex(salt)


def has_salt(store: Store) -> bool:
    """Whether there is a salt of a job's claim, whole or damaged: a claim may have been sent."""
    return any(store.has_note(name) for name in COPIES)


def get_salt(store: Store) -> bytes:
    """Return the salt for a job's claim, which is on the disk twice before anything is sent.

    Raises:
        DamagedFile: no copy is whole.
        StoreError: the disk fails, or has no room for both copies.
    """
    found = _read_copies(store)
    salt = next(iter(found.values())) if found else secrets.token_bytes(SALT_BYTES).hex()
    _put_missing(store, salt, found)
    return bytes.fromhex(salt)


def _read_copies(store: Store) -> dict[str, str]:
    """Return the salt of each whole copy, by its name; `DamagedFile` if there are only others."""
    found: dict[str, str] = {}
    damage: DamagedFile | None = None
    for name in COPIES:
        try:
            note = store.get_json(name)
        except DamagedFile as error:
            damage = error
        else:
            if note is not None:
                found[name] = note["salt"]
    if damage is not None and not found:
        raise damage
    return found


def _put_missing(store: Store, salt: str, found: Container[str]) -> None:
    for name in COPIES:
        if name not in found:
            store.put_json(name, {"salt": salt})
