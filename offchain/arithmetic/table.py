"""The table of arithmetics: a new one is a folder beside this file, and a row here."""

from collections.abc import Mapping

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.exact import EXACT
from offchain.arithmetic.ordered import ORDERED

_ROWS = (ORDERED, EXACT)

ARITHMETICS: Mapping[str, Arithmetic] = {row.name: row for row in _ROWS}
"""Every arithmetic that programs may carry, by its name."""
