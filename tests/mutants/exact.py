"""The judge of mutants of the contracts that are different in `exact`."""

from typing import ClassVar

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from tests.mutants import contract


class Judge(contract.Judge):
    """A judge that knows the answers of the contracts of `exact`."""

    ARITHMETIC: ClassVar[Arithmetic] = EXACT
