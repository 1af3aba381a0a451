"""The arithmetic `logged`: results are rounded once, and a log may turn the doubtful ones.

Without a log, folds mean what they mean in `exact`, and everything else what it means in all
arithmetics. Besides, a step has a log of some elements of sums and of transcendental functions,
each with a direction. An element so named is the neighbour in that direction instead of the nearest
number, if the exact value lies so near to half way between the two that stock binary64 operators
cannot be relied on to tell the sides apart (`band.py`). An entry for any other element is void.
"""

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import find_fold

LOGGED = Arithmetic("logged", version=1, find_fold=find_fold, has_engines=True)
