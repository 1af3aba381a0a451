"""Programs: whole training or inference steps as flat graphs of exactly defined operators.

`graph` is what a program is, `semantics` what it means, `encoding` and `roots` how it is committed
to. `recipe` is what a user writes, `capture` makes a program of it, `lowering` knows the operators.
"""

from offchain.arithmetic.environment import require_rounding

require_rounding()
