"""Everything off the chain: arithmetic, commitments, programs, execution, providers, disputes."""

import time

from moot.offchain.arithmetic.environment import require_rounding

BEGAN_NS = time.time_ns()
"""When this process began to load Moot: a file that has changed since may not be what it runs."""

require_rounding()
