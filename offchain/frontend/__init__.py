"""The torch front end: recipes, and the programs that are made of them.

`recipe` is what a user writes, `capture` makes a program of it, `lowering` knows the operators.
"""

from moot.offchain.arithmetic.environment import require_rounding

require_rounding()
