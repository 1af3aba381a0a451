"""The table of arithmetics: a new one is a folder beside this file, and a row here."""

from collections.abc import Mapping

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.ordered import ORDERED

ARITHMETICS: Mapping[str, Arithmetic] = {arithmetic.name: arithmetic for arithmetic in (ORDERED,)}
"""Every arithmetic that programs may carry, by its name."""
