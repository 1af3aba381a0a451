# pragma version 0.4.3
"""
@title Operators, their operands, and the index maps through which they read them
@license Apache-2.0
@notice offchain/programs/graph.py says what they mean; decoder.vy makes them from encodings.
@dev Everything is read from the padded encoding: 32 zero bytes, then the encoding. The fields
     that end before byte e of the encoding are then the low bits of the padded one's word at e.
"""

import tags
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
FOLDS: constant(uint256) = 1 << CONTRACT | 1 << REDUCE | 1 << SCATTER

# Where the elements of an operand come from.
IMMEDIATE: constant(uint256) = 0
FROM_NODE: constant(uint256) = 1
FROM_STATE: constant(uint256) = 2
FROM_BATCH: constant(uint256) = 3

# Element types; byte t of the widths is that of type t.
FLOAT32: constant(uint256) = 1
INT64: constant(uint256) = 2
INT32: constant(uint256) = 3
BOOL: constant(uint256) = 4
BFLOAT16: constant(uint256) = 5
INT8: constant(uint256) = 6
WIDTHS: constant(uint256) = (
    4 << 8 * FLOAT32
    | 8 << 8 * INT64
    | 4 << 8 * INT32
    | 1 << 8 * BOOL
    | 2 << 8 * BFLOAT16
    | 1 << 8 * INT8
)

# Functions that are not scalar ones, and the first that the chain may not know.
UNIFORM: constant(uint256) = 29
ARGMAX: constant(uint256) = 30
ARGMIN: constant(uint256) = 31
FIRST_TRANSCENDENTAL: constant(uint256) = 64

# Bytes of a row before its terms, and of a term.
ROW_BYTES: constant(uint256) = 21
TERM_BYTES: constant(uint256) = 9
# In an operand's word the place of its first row is above its fixed fields.
ROWS_AT: constant(uint256) = 120

U8: constant(uint256) = 2**8 - 1
U32: constant(uint256) = 2**32 - 1
U64: constant(uint256) = 2**64 - 1


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
def hash_encoding(encoding: Bytes[types.MAX_NODE_BYTES]) -> bytes32:
    """
    @notice Return the leaf of an operator in the tree of its program.
    @param encoding The operator.
    @return The leaf.
    """
    return keccak256(concat(tags.OPERATOR, encoding))


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
def get_width(dtype: uint256) -> uint256:
    """
    @notice Return the bytes of one element of a type.
    @param dtype The element type, any byte.
    @return Its width, and 0 if there is no such type.
    """
    return (WIDTHS >> (dtype << 3)) & U8


@internal
@pure
def is_fold(kind: uint256) -> bool:
    """
    @notice Whether an output element is the last of a chain of accumulators.
    @param kind The operator's kind.
    @return Whether it is so.
    """
    return (FOLDS >> kind) & 1 == 1


@internal
@pure
def is_search(kind: uint256, function: uint256) -> bool:
    """
    @notice Whether a fold's accumulators are positions, of the best element so far.
    @param kind The operator's kind.
    @param function Its function.
    @return Whether it is so.
    """
    return kind == REDUCE and (function == ARGMAX or function == ARGMIN)


@internal
@pure
def has_origin(op: Operator, origin: uint256) -> bool:
    """
    @notice Whether elements of an operator's operands come from somewhere.
    @param op The operator.
    @param origin Where.
    @return Whether it is so.
    """
    for place: uint256 in range(op.operand_count, bound=types.MAX_OPERANDS):
        if self.get_origin(op.operands[place]) == origin:
            return True
    return False


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
        product = self.multiply_sizes(product, op.sizes[i])
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
        product = self.multiply_sizes(product, op.sizes[unsafe_add(op.rank, i)])
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
    cursor: uint256 = operand >> ROWS_AT
    linear: uint256 = 0
    for r: uint256 in range(self.get_row_count(operand), bound=MAX_ROWS):
        cursor = unsafe_add(cursor, ROW_BYTES)
        word: bytes32 = extract32(padded, cursor)
        row: uint256 = convert(word, uint256)
        # The shift to the right keeps the sign of the 64 bits.
        coordinate: int256 = convert(word << 184, int256) >> 192
        for t: uint256 in range(row & U8, bound=MAX_TERMS):
            cursor = unsafe_add(cursor, TERM_BYTES)
            word = extract32(padded, cursor)
            value: int256 = variables[(convert(word, uint256) >> 64) & U8]
            factor: int256 = convert(word << 192, int256) >> 192
            coordinate = unsafe_add(coordinate, unsafe_mul(factor, value))
        if coordinate < 0:
            return False, 0
        place: uint256 = convert(coordinate, uint256)
        divisor: uint256 = (row >> 72) & U32
        quotient: uint256 = unsafe_div(place, divisor)
        size: uint256 = (row >> 104) & U64
        if quotient >= size or unsafe_mul(quotient, divisor) != place:
            return False, 0
        linear = unsafe_add(unsafe_mul(linear, size), quotient)
    return True, linear


@internal
@pure
def get_origin(operand: uint256) -> uint256:
    """
    @notice Return where an operand's elements come from.
    @param operand The operand's word.
    @return The origin's number.
    """
    return (operand >> 112) & U8


@internal
@pure
def get_dtype(operand: uint256) -> uint256:
    """
    @notice Return an operand's element type.
    @param operand The operand's word.
    @return The type's number.
    """
    return (operand >> 104) & U8


@internal
@pure
def get_reference(operand: uint256) -> uint256:
    """
    @notice Return the node or the slot that an operand reads.
    @param operand The operand's word.
    @return Its index.
    """
    return (operand >> 72) & U32


@internal
@pure
def get_value(operand: uint256) -> uint256:
    """
    @notice Return what an operand is if it is constant, and reads if its access is out of range.
    @param operand The operand's word.
    @return The bits.
    """
    return (operand >> 8) & U64


@internal
@pure
def get_row_count(operand: uint256) -> uint256:
    """
    @notice Return the number of rows of an operand's access.
    @param operand The operand's word.
    @return The number.
    """
    return operand & U8


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
def get_target(padded: Bytes[MAX_PADDED_BYTES], op: Operator, place: uint256) -> uint256:
    """
    @notice Return the output dimension that an index operand of a scatter must equal.
    @param padded The padded encoding.
    @param op The scatter.
    @param place The index operand's place among the index operands.
    @return The dimension.
    """
    return convert(extract32(padded, unsafe_add(unsafe_add(op.tail, 1), place)), uint256) & U8


@internal
@pure
def multiply_sizes(product: uint256, size: uint256) -> uint256:
    """
    @notice Return a product of dimensions with one more of them.
    @param product The product so far.
    @param size The dimension, below 2^64.
    @return The new product, or `TOO_LARGE` if that is less.
    """
    return min(unsafe_mul(product, size), TOO_LARGE)
