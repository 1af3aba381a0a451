# pragma version 0.4.3
"""
@title The numbers of phases, endings, outcomes, standings and statuses
@license Apache-2.0
@notice contracts/reasons.py has the same, and says what they mean.
"""

# Where a match stands.
HISTORY: constant(uint256) = 1
INTERVAL: constant(uint256) = 2
TRACE: constant(uint256) = 3
TENSOR: constant(uint256) = 4
STATE: constant(uint256) = 5
CHUNK: constant(uint256) = 6
FOLD: constant(uint256) = 7
LEAF: constant(uint256) = 8
SINK: constant(uint256) = 9
VERIFIER: constant(uint256) = 10

# The set of phases in which trees are descended: bit p stands for phase p.
TREES: constant(uint256) = 1 << HISTORY | 1 << INTERVAL | 1 << TRACE | 1 << TENSOR | 1 << STATE
# Those in which the tree of an interval or of a step is entered, of an operator's output, of a state.
BEFORE_OPERATORS: constant(uint256) = 1 << HISTORY | 1 << INTERVAL | 1 << TRACE
OF_OPERATOR: constant(uint256) = 1 << TRACE | 1 << TENSOR
OF_STATE: constant(uint256) = 1 << TRACE | 1 << STATE

# Why a match ended.
BY_CLOCK: constant(uint256) = 1
BY_SCALAR: constant(uint256) = 2
BY_SINK: constant(uint256) = 3
BY_EMPTY: constant(uint256) = 4
BY_VERIFIER: constant(uint256) = 5

# Who won it: side 0, side 1, or neither; and nobody knows where the verifier has not ruled.
NEITHER: constant(uint256) = 2
UNDECIDED: constant(uint256) = 3

# Where a member stands.
COMMITTED: constant(uint256) = 1
REVEALED: constant(uint256) = 2
LATE: constant(uint256) = 3
DEFEATED: constant(uint256) = 4
PAID: constant(uint256) = 5
RELEASED: constant(uint256) = 6

# How a job stands.
OPEN: constant(uint256) = 0
WON: constant(uint256) = 1
EMPTY: constant(uint256) = 2
VOID: constant(uint256) = 3

# Who decides a job's leaves.
SCALAR_LEAF: constant(uint256) = 0
OPERATOR_LEAF: constant(uint256) = 1
