"""The transcendental functions, correctly rounded, as LLVM IR: `functions.py` has them all."""

from moot.offchain.arithmetic.environment import require_rounding

require_rounding()
