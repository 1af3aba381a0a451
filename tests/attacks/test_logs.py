"""Rounding logs by which a trainer would make everybody slow who reads them."""

import numpy as np
import pytest

from moot.offchain.backends.cpu.logged import plans
from moot.offchain.programs.graph import Kind
from moot.offchain.programs.rounding.entries import make_log
from moot.offchain.programs.rounding.journals import Reading
from moot.offchain.programs.rounding.meaning import count_allowed
from tests.property.test_logged_nodes import OPERATOR, make_sum

ROWS, PAIRS = 40, 200


def test_entries_for_sums_that_cancel_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bands are too wide, entries are void without a look at the definition.

    A log of a few hundred bytes could else name as many long sums as it may, and make each of its
    readers, the bounded verifier among them, add up all their terms as integers.
    """
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, ROWS, PAIRS)).astype(np.float32)
    rest = (2.0**-20 * rng.normal(size=(ROWS, 1))).astype(np.float32)
    one = np.ones((ROWS, 1), np.float32)
    subject = make_sum(
        Kind.CONTRACT, np.hstack([first, first, rest]), np.hstack([second, -second, one])
    )
    count = count_allowed(subject.node)
    log = make_log((OPERATOR, element, True) for element in range(count))
    with monkeypatch.context() as patch:
        patch.setattr(plans, "apply_entry", lambda *_, **__: pytest.fail("the definition is asked"))
        journal = Reading(log)
        subject.run(journal)
    assert len(journal.void) == count
    subject.check(log)
