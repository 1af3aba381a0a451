# pragma version 0.4.3
"""
@title Operators: the strict decoder of their canonical encoding, and their index maps
@license Apache-2.0
@notice offchain/programs/encoding.py has the format and its rules, graph.py what a row means.
@dev Everything is read from the padded encoding: 32 zero bytes, then the encoding. The fields
     that end before byte e of the encoding are then the low bits of the padded one's word at e.
"""

import float32
import types

MAX_RANK: constant(uint256) = 8
MAX_FOLD_RANK: constant(uint256) = 4
MAX_SIZES: constant(uint256) = 12
MAX_ROWS: constant(uint256) = 8
MAX_TERMS: constant(uint256) = 12
# The output's indices, the fold's indices, the values of a gather's index operands.
MAX_VARIABLES: constant(uint256) = 19
PADDING: constant(uint256) = 32
MAX_PADDED_BYTES: constant(uint256) = 2_080
# The first size in bytes that no tensor has; products are cut off above it.
TOO_LARGE: constant(uint256) = 1 << 63

# Operator kinds.
MAP: constant(uint256) = 1
CONTRACT: constant(uint256) = 2
REDUCE: constant(uint256) = 3
MOVE: constant(uint256) = 4
GATHER: constant(uint256) = 5
SCATTER: constant(uint256) = 6
RANDOM: constant(uint256) = 7
SOURCE: constant(uint256) = 8
SINK: constant(uint256) = 9

# Where the elements of an operand come from.
IMMEDIATE: constant(uint256) = 0
FROM_NODE: constant(uint256) = 1
FROM_STATE: constant(uint256) = 2
FROM_BATCH: constant(uint256) = 3

# Element types.
FLOAT32: constant(uint256) = 1
INT64: constant(uint256) = 2
INT32: constant(uint256) = 3
BOOL: constant(uint256) = 4

# Functions with a part of their own in what kinds compute.
COPY: constant(uint256) = 0
FMA: constant(uint256) = 5
EQ: constant(uint256) = 11
NE: constant(uint256) = 12
LT: constant(uint256) = 13
GT: constant(uint256) = 15
UNIFORM: constant(uint256) = 29
ARGMAX: constant(uint256) = 30
ARGMIN: constant(uint256) = 31
# All functions below are known to the chain, or belong to kinds that need no scalar function.
FIRST_TRANSCENDENTAL: constant(uint256) = 64

# Byte t is the width of element type t.
WIDTHS: constant(uint256) = 4 << 8 * FLOAT32 | 8 << 8 * INT64 | 4 << 8 * INT32 | 1 << 8 * BOOL
# Byte k is the least number of operands of kind k, and above it, from bit 4, the greatest.
ONE_TO_THREE: constant(uint256) = 1 | 3 << 4
ONE: constant(uint256) = 1 | 1 << 4
OPERAND_COUNTS: constant(uint256) = (
    ONE_TO_THREE << 8 * MAP
    | (3 | 3 << 4) << 8 * CONTRACT
    | (2 | 2 << 4) << 8 * REDUCE
    | (1 | 8 << 4) << 8 * MOVE
    | (2 | 8 << 4) << 8 * GATHER
    | (3 | 8 << 4) << 8 * SCATTER
    | ONE << 8 * SOURCE
    | ONE << 8 * SINK
)
# Bit f is set if there is a function f.
FUNCTIONS: constant(uint256) = (1 << 32) - 1 | ((1 << 17) - 1) << 64
FOLDS: constant(uint256) = 1 << CONTRACT | 1 << REDUCE | 1 << SCATTER
# Kinds whose function is a scalar one, kinds that are defined for FLOAT32 only.
OF_SCALARS: constant(uint256) = 1 << MAP | 1 << REDUCE | 1 << SCATTER
OF_FLOATS: constant(uint256) = 1 << CONTRACT | 1 << RANDOM

HEAD_BYTES: constant(uint256) = 6
SIZE_BYTES: constant(uint256) = 8
OPERAND_BYTES: constant(uint256) = 15
ROW_BYTES: constant(uint256) = 21
TERM_BYTES: constant(uint256) = 9
TAIL_OF_RANDOM: constant(uint256) = 12
# In the word of an operand the place of its first row is above its fixed fields.
ROWS_SHIFT: constant(uint256) = 8 * OPERAND_BYTES

BYTE: constant(uint256) = 2**8 - 1
WORD_32: constant(uint256) = 2**32 - 1
WORD_64: constant(uint256) = 2**64 - 1


struct Operator:
    kind: uint256
    function: uint256
    dtype: uint256
    rank: uint256
    fold_rank: uint256
    operand_count: uint256
    # The output's dimensions, then the fold's.
    sizes: uint256[MAX_SIZES]
    # origin u8 | dtype u8 | reference u32 | value u64 | rows u8, and above them the rows' place.
    operands: uint256[types.MAX_OPERANDS]
    # Place of what follows the operands.
    tail: uint256


@internal
@pure
def pad(encoding: Bytes[types.MAX_NODE_BYTES]) -> Bytes[MAX_PADDED_BYTES]:
    """
    @notice Return an encoding in the form that the other functions read.
    @param encoding The encoding.
    @return The padded encoding.
    """
    return concat(empty(bytes32), encoding)


@internal
@pure
def decode(padded: Bytes[MAX_PADDED_BYTES]) -> Operator:
    """
    @notice Return an operator, or revert if its encoding is not canonical and valid.
    @param padded The padded encoding.
    @return The operator.
    """
    end: uint256 = unsafe_sub(len(padded), PADDING)
    self._require(HEAD_BYTES <= end)
    op: Operator = self._decode_head(convert(extract32(padded, HEAD_BYTES), uint256))
    # No piece is longer than 2^8 bytes, and none is read behind the end: no cursor overflows.
    cursor: uint256 = HEAD_BYTES
    for i: uint256 in range(unsafe_add(op.rank, op.fold_rank), bound=MAX_SIZES):
        cursor = unsafe_add(cursor, SIZE_BYTES)
        self._require(cursor <= end)
        op.sizes[i] = convert(extract32(padded, cursor), uint256) & WORD_64
    self._require_small(op, self.get_elements(op))
    self._require_small(op, self.get_fold_length(op))
    for place: uint256 in range(op.operand_count, bound=types.MAX_OPERANDS):
        op.operands[place] = self._decode_operand(padded, cursor)
        self._require(self._is_typed(op, place))
        cursor = self._check_rows(padded, op, place)
    op.tail = cursor
    self._check_tail(padded, op)
    return op


@internal
@pure
def get_width(dtype: uint256) -> uint256:
    """
    @notice Return the bytes of one element of a type.
    @param dtype The element type, any byte.
    @return Its width, and 0 if there is no such type.
    """
    return (WIDTHS >> (dtype << 3)) & BYTE


@internal
@pure
def is_fold(op: Operator) -> bool:
    """
    @notice Whether an output element is the last of a chain of accumulators.
    @param op The operator.
    @return Whether it is so.
    """
    return (FOLDS >> op.kind) & 1 == 1


@internal
@pure
def is_search(op: Operator) -> bool:
    """
    @notice Whether a fold's accumulators are positions, of the best element so far.
    @param op The operator.
    @return Whether it is so.
    """
    return op.kind == REDUCE and (op.function == ARGMAX or op.function == ARGMIN)


@internal
@pure
def get_elements(op: Operator) -> uint256:
    """
    @notice Return the number of output elements.
    @param op The operator.
    @return The product of its dimensions, or `TOO_LARGE` if that is less.
    """
    product: uint256 = 1
    for i: uint256 in range(op.rank, bound=MAX_RANK):
        product = self._multiply(product, op.sizes[i])
    return product


@internal
@pure
def get_fold_length(op: Operator) -> uint256:
    """
    @notice Return the number of fold steps of one output element.
    @param op The operator.
    @return The product of the fold's dimensions, or `TOO_LARGE` if that is less; 1 if it has none.
    """
    product: uint256 = 1
    for i: uint256 in range(op.fold_rank, bound=MAX_FOLD_RANK):
        product = self._multiply(product, op.sizes[unsafe_add(op.rank, i)])
    return product


@internal
@pure
def unravel(
    variables: int256[MAX_VARIABLES], index: uint256, op: Operator, first: uint256, size_count: uint256
) -> int256[MAX_VARIABLES]:
    """
    @notice Return the variables with some of them set to the row-major coordinates of an index.
    @param variables The variables.
    @param index The linear index.
    @param op The operator whose sizes count; those that are used are not 0.
    @param first The first of its sizes, and of the variables.
    @param size_count How many of them are used.
    @return The new variables.
    """
    result: int256[MAX_VARIABLES] = variables
    rest: uint256 = index
    # `first + size_count` is at most 12.
    place: uint256 = unsafe_add(first, size_count)
    for _: uint256 in range(size_count, bound=MAX_RANK):
        place = unsafe_sub(place, 1)
        size: uint256 = op.sizes[place]
        result[place] = convert(rest % size, int256)
        rest = unsafe_div(rest, size)
    return result


@internal
@pure
def locate(
    padded: Bytes[MAX_PADDED_BYTES], operand: uint256, variables: int256[MAX_VARIABLES]
) -> (bool, uint256):
    """
    @notice Return the element that an access addresses.
    @dev Variables and coefficients are below 2^63 in magnitude and there are twelve terms at
         most: sums stay below 2^131. Linear indices stay below the product of the sizes, 2^63.
    @param padded The padded encoding of a valid operator.
    @param operand The operand's word.
    @param variables The values of the variables.
    @return Whether the access is in range, and the element's linear index.
    """
    cursor: uint256 = operand >> ROWS_SHIFT
    linear: uint256 = 0
    for r: uint256 in range(operand & BYTE, bound=MAX_ROWS):
        cursor = unsafe_add(cursor, ROW_BYTES)
        row: uint256 = convert(extract32(padded, cursor), uint256)
        coordinate: int256 = self._extend(row >> 8)
        for t: uint256 in range(row & BYTE, bound=MAX_TERMS):
            cursor = unsafe_add(cursor, TERM_BYTES)
            term: uint256 = convert(extract32(padded, cursor), uint256)
            value: int256 = variables[(term >> 64) & BYTE]
            coordinate = unsafe_add(coordinate, unsafe_mul(self._extend(term), value))
        if coordinate < 0:
            return False, 0
        place: uint256 = convert(coordinate, uint256)
        divisor: uint256 = (row >> 72) & WORD_32
        size: uint256 = (row >> 104) & WORD_64
        if place % divisor != 0 or unsafe_div(place, divisor) >= size:
            return False, 0
        linear = unsafe_add(unsafe_mul(linear, size), unsafe_div(place, divisor))
    return True, linear


@internal
@pure
def get_origin(operand: uint256) -> uint256:
    """
    @notice Return where an operand's elements come from.
    @param operand The operand's word.
    @return The origin's number.
    """
    return (operand >> 112) & BYTE


@internal
@pure
def get_dtype(operand: uint256) -> uint256:
    """
    @notice Return an operand's element type.
    @param operand The operand's word.
    @return The type's number.
    """
    return (operand >> 104) & BYTE


@internal
@pure
def get_reference(operand: uint256) -> uint256:
    """
    @notice Return the node or the slot that an operand reads.
    @param operand The operand's word.
    @return Its index.
    """
    return (operand >> 72) & WORD_32


@internal
@pure
def get_value(operand: uint256) -> uint256:
    """
    @notice Return what an operand is if it is constant, and reads if its access is out of range.
    @param operand The operand's word.
    @return The bits.
    """
    return (operand >> 8) & WORD_64


@internal
@pure
def get_signed(dtype: uint256, bits: uint256) -> int256:
    """
    @notice Return the integer that an element's bits mean.
    @param dtype The element type.
    @param bits Bits of its width.
    @return The integer; bits of type BOOL have no sign.
    """
    if dtype == BOOL:
        return convert(bits, int256)
    # 31 or 63: a width is 4 or 8 here.
    sign: uint256 = 1 << unsafe_sub(self.get_width(dtype) << 3, 1)
    # Both are at most 2^64.
    return unsafe_sub(convert(bits ^ sign, int256), convert(sign, int256))


@internal
@pure
def _decode_head(head: uint256) -> Operator:
    op: Operator = empty(Operator)
    op.kind = head >> 40
    op.function = (head >> 32) & BYTE
    op.dtype = (head >> 24) & BYTE
    op.rank = (head >> 16) & BYTE
    op.fold_rank = (head >> 8) & BYTE
    op.operand_count = head & BYTE
    self._require(MAP <= op.kind and op.kind <= SINK)
    self._require((FUNCTIONS >> op.function) & 1 == 1)
    self._require(self.get_width(op.dtype) != 0)
    self._require(op.rank <= MAX_RANK and op.fold_rank <= MAX_FOLD_RANK)
    self._require((op.fold_rank != 0) == self.is_fold(op))
    if (OF_SCALARS >> op.kind) & 1 == 1 and not self.is_search(op):
        self._require(op.function < UNIFORM or op.function > ARGMIN)
    if (OF_FLOATS >> op.kind) & 1 == 1:
        self._require(op.dtype == FLOAT32)
    counts: uint256 = OPERAND_COUNTS >> (op.kind << 3)
    self._require(counts & 15 <= op.operand_count and op.operand_count <= (counts >> 4) & 15)
    return op


@internal
@pure
def _decode_operand(padded: Bytes[MAX_PADDED_BYTES], start: uint256) -> uint256:
    # `start` is at most the length of the encoding.
    cursor: uint256 = unsafe_add(start, OPERAND_BYTES)
    self._require(cursor <= unsafe_sub(len(padded), PADDING))
    operand: uint256 = convert(extract32(padded, cursor), uint256) & ((1 << ROWS_SHIFT) - 1)
    width: uint256 = self.get_width(self.get_dtype(operand))
    self._require(width != 0 and operand & BYTE <= MAX_ROWS)
    self._require(self.get_origin(operand) <= FROM_BATCH)
    self._require(self.get_value(operand) >> (width << 3) == 0)
    self._require(self._is_canonical(self.get_dtype(operand), self.get_value(operand)))
    if self.get_origin(operand) == IMMEDIATE:
        self._require(operand & BYTE == 0 and self.get_reference(operand) == 0)
    return operand | cursor << ROWS_SHIFT


@internal
@pure
def _is_canonical(dtype: uint256, bits: uint256) -> bool:
    # Whether bits of its width are what an element of the type is committed as.
    if dtype == BOOL:
        return bits <= 1
    return dtype != FLOAT32 or bits == float32.NAN or not float32.is_nan(bits)


@internal
@pure
def _is_typed(op: Operator, place: uint256) -> bool:
    # Whether an operand has the output's type, where the kind asks for it: the scalar function of
    # a map looks after its own operands, and positions and indices have their own types.
    is_free: bool = (
        op.kind == MAP
        or (op.kind == GATHER and place != 0)
        or (op.kind == SCATTER and place >= 2)
        or (place == 1 and self.is_search(op))
    )
    return is_free or self.get_dtype(op.operands[place]) == op.dtype


@internal
@pure
def _check_rows(padded: Bytes[MAX_PADDED_BYTES], op: Operator, place: uint256) -> uint256:
    variables: uint256 = unsafe_add(op.rank, op.fold_rank)
    if op.kind == GATHER and place == 0:
        # A gather has two operands at least.
        variables = unsafe_add(variables, unsafe_sub(op.operand_count, 1))
    cursor: uint256 = op.operands[place] >> ROWS_SHIFT
    elements: uint256 = 1
    for _: uint256 in range(op.operands[place] & BYTE, bound=MAX_ROWS):
        size: uint256 = 0
        size, cursor = self._check_row(padded, cursor, variables)
        elements = self._multiply(elements, size)
    self._require_small(op, elements)
    return cursor


@internal
@pure
def _check_row(
    padded: Bytes[MAX_PADDED_BYTES], start: uint256, variables: uint256
) -> (uint256, uint256):
    end: uint256 = unsafe_sub(len(padded), PADDING)
    cursor: uint256 = unsafe_add(start, ROW_BYTES)
    self._require(cursor <= end)
    row: uint256 = convert(extract32(padded, cursor), uint256)
    self._require((row >> 72) & WORD_32 != 0 and row & BYTE <= MAX_TERMS)
    least: uint256 = 0
    for _: uint256 in range(row & BYTE, bound=MAX_TERMS):
        cursor = unsafe_add(cursor, TERM_BYTES)
        self._require(cursor <= end)
        term: uint256 = convert(extract32(padded, cursor), uint256)
        variable: uint256 = (term >> 64) & BYTE
        self._require(least <= variable and variable < variables and term & WORD_64 != 0)
        least = unsafe_add(variable, 1)
    return (row >> 104) & WORD_64, cursor


@internal
@pure
def _check_tail(padded: Bytes[MAX_PADDED_BYTES], op: Operator):
    # No cursor went behind the end.
    rest: uint256 = unsafe_sub(unsafe_sub(len(padded), PADDING), op.tail)
    if op.kind == RANDOM:
        self._require(rest == TAIL_OF_RANDOM)
    elif op.kind == SCATTER:
        # A scatter has three operands at least.
        self._require(rest == unsafe_sub(op.operand_count, 2))
        for i: uint256 in range(rest, bound=types.MAX_OPERANDS):
            self._require(self.get_target(padded, op, i) < op.rank)
    else:
        self._require(rest == 0)


@internal
@pure
def get_target(padded: Bytes[MAX_PADDED_BYTES], op: Operator, place: uint256) -> uint256:
    """
    @notice Return the output dimension that an index operand of a scatter must equal.
    @param padded The padded encoding.
    @param op The scatter.
    @param place The index operand's place among the index operands.
    @return The dimension.
    """
    return convert(extract32(padded, unsafe_add(unsafe_add(op.tail, 1), place)), uint256) & BYTE


@internal
@pure
def _multiply(product: uint256, size: uint256) -> uint256:
    # At most 2^63 times 2^64.
    return min(unsafe_mul(product, size), TOO_LARGE)


@internal
@pure
def _require_small(op: Operator, elements: uint256):
    # At most 2^63 times 8.
    self._require(unsafe_mul(elements, self.get_width(op.dtype)) < TOO_LARGE)


@internal
@pure
def _extend(x: uint256) -> int256:
    # The last 64 bits as a signed integer: neither side of the difference exceeds 2^64.
    sign: uint256 = 1 << 63
    return unsafe_sub(convert((x & WORD_64) ^ sign, int256), convert(sign, int256))


@internal
@pure
def _require(condition: bool):
    assert condition, "leaf: operator is malformed"
