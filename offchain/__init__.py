"""Everything off the chain: arithmetic, commitments, programs, execution, providers, disputes."""

from offchain.arithmetic.environment import require_rounding

require_rounding()
