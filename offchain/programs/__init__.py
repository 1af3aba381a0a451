"""Programs: whole training or inference steps as flat graphs of exactly defined operators.

`graph` is what a program is, `semantics` what it means, `legality` which ones a job may have,
`encoding` and `roots` how they are committed to. Nothing here knows torch.
"""

from moot.offchain.arithmetic.environment import require_rounding

require_rounding()
