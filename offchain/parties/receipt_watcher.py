"""A watcher of receipts: it samples what it is handed, and takes what is wrong to the chain."""

import random
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moot.offchain.errors import ChainUnavailable, MootError
from moot.offchain.parties.accuser import accuse, accuse_of_conflict, require_worth
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import Settings
from moot.offchain.receipts.conflicts import find_fault
from moot.offchain.receipts.documents import read_document
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.serving.tasks import FindModels, choose_model, make_task, read_asked
from moot.offchain.serving.verdicts import Verdict, check_receipt

PAUSE_S = 1.0


@dataclass
class ReceiptWatcher:
    """A watcher of the documents of receipts in a folder, as clients hand them over.

    Every receipt is compared with all others of its provider; a drawn share of answers is run
    again. Without a key it only says what it sees.

    Attributes:
        settings: the party's.
        tell: takes events.
        inbox: the folder; each file is what /v1/receipts/ID gives.
        find_models: finds the models that a document may be of, the likeliest first.
        rate: the share of answers that are run again.
        seed: what the share is drawn from.
    """

    settings: Settings
    tell: Tell
    inbox: Path
    find_models: FindModels
    rate: float = 1.0
    seed: int = 0
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _known: dict[str, dict[bytes, SignedReceipt]] = field(default_factory=dict)
    _faulty: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Watch until the process is ended."""
        while True:
            self.look()
            time.sleep(PAUSE_S)

    def look(self) -> None:
        """Look at the files that are new, or have grown: one may be seen while it is written."""
        for path in sorted(self.inbox.glob("*.json")):
            state = _get_state(path)
            if state is None or self._seen.get(path.name) == state:
                continue
            self._seen[path.name] = state
            try:
                self._take(path)
            except MootError as error:
                if isinstance(error, ChainUnavailable):
                    del self._seen[path.name]  # a node that is away hides no lie
                self.tell("failed", f"{path.name}: {error}", file=path.name)

    def _take(self, path: Path) -> None:
        signed, document = read_document(path)
        self._compare(signed)
        if self._is_drawn(signed):
            self._check(path.name, signed, document)

    def _is_drawn(self, signed: SignedReceipt) -> bool:
        return random.Random(f"{self.seed} {signed.digest.hex()}").random() < self.rate  # noqa: S311 - no secret

    def _compare(self, signed: SignedReceipt) -> None:
        """Look for a conflict of a receipt with others of its provider, and prove it."""
        provider = signed.receipt.provider
        known = self._known.setdefault(f"{signed.domain} {provider}", {})
        if signed.digest in known or provider in self._faulty:
            return
        known[signed.digest] = signed
        pair = find_fault(known.values())
        if pair is None:
            return
        self._faulty.add(provider)
        numbers = [it.receipt.number for it in pair]
        line = f"receipts {numbers[0]} and {numbers[1]} of {provider} do not go together"
        self.tell("conflict", line, provider=provider, numbers=numbers)
        if self.settings.key:
            try:
                accuse_of_conflict(self.settings, self.tell, pair)
            except ChainUnavailable:
                self._faulty.discard(provider)
                del known[signed.digest]
                raise

    def _check(self, name: str, signed: SignedReceipt, document: Mapping[str, Any]) -> None:
        if self.settings.key:  # before anything is computed for a stranger's receipt
            require_worth(self.settings, self.tell, signed)
        models, asked = self.find_models(document), read_asked(document)
        programs = choose_model(models, asked.question, signed.receipt)
        checked = check_receipt(signed, asked, programs)
        about = {"file": name, "verdict": checked.verdict.value, "token": checked.token}
        self.tell("checked", f"{name}: {checked.verdict.value}: {checked.line}", **about)
        if checked.verdict is Verdict.REFUTED and self.settings.key:
            task = make_task(programs, asked.question, signed.receipt.steps)
            has_won = accuse(self.settings, self.tell, signed, task)
            line = "the provider has lost a bond" if has_won else "the provider has lost nothing"
            self.tell("ended", f"{name}: {line}", file=name, has_won=has_won)


def _get_state(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from what it was before; None if it is no file, or gone.

    Whoever opens a pipe waits until somebody writes into it.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
