# pragma version 0.4.3
"""
@title The strict decoder of the canonical encoding of operators
@license Apache-2.0
@notice It accepts what offchain/programs/encoding.py accepts, and nothing else: every length,
        reference, bound and type is checked, because programs come from other parties.
"""

import factors
import float32
import nodes
import scalar
import types

# Byte k is the least number of operands of kind k, and above it, from bit 4, the greatest.
MAP_OPERANDS: constant(uint256) = 1 | 3 << 4
CONTRACT_OPERANDS: constant(uint256) = 3 | 3 << 4
REDUCE_OPERANDS: constant(uint256) = 2 | 2 << 4
MOVE_OPERANDS: constant(uint256) = 1 | 8 << 4
GATHER_OPERANDS: constant(uint256) = 2 | 8 << 4
SCATTER_OPERANDS: constant(uint256) = 3 | 8 << 4
ONE_OPERAND: constant(uint256) = 1 | 1 << 4
OPERAND_COUNTS: constant(uint256) = (
    MAP_OPERANDS << 8 * nodes.MAP
    | CONTRACT_OPERANDS << 8 * nodes.CONTRACT
    | REDUCE_OPERANDS << 8 * nodes.REDUCE
    | MOVE_OPERANDS << 8 * nodes.MOVE
    | GATHER_OPERANDS << 8 * nodes.GATHER
    | SCATTER_OPERANDS << 8 * nodes.SCATTER
    | ONE_OPERAND << 8 * nodes.SOURCE
    | ONE_OPERAND << 8 * nodes.SINK
)

# Sets of functions: bit f stands for function f.
ALL: constant(uint256) = 2**32 - 1 | (2**17 - 1) << 64
FOLDED: constant(uint256) = (
    1 << scalar.ADD
    | 1 << scalar.MUL
    | 1 << scalar.MAX
    | 1 << scalar.MIN
    | 1 << scalar.BIT_AND
    | 1 << scalar.BIT_OR
)
SEARCHES: constant(uint256) = 1 << nodes.ARGMAX | 1 << nodes.ARGMIN
# The one transcendental function of two operands.
POW: constant(uint256) = 80

HEAD_BYTES: constant(uint256) = 6
SIZE_BYTES: constant(uint256) = 8
OPERAND_BYTES: constant(uint256) = 15
TAIL_OF_RANDOM: constant(uint256) = 12


@internal
@pure
def decode(padded: Bytes[nodes.MAX_PADDED_BYTES]) -> nodes.Operator:
    """
    @notice Return an operator, or revert if its encoding is not canonical and valid.
    @param padded The padded encoding.
    @return The operator.
    """
    end: uint256 = unsafe_sub(len(padded), nodes.PADDING)
    self._require(HEAD_BYTES <= end)
    op: nodes.Operator = self._decode_head(convert(extract32(padded, HEAD_BYTES), uint256))
    # No piece is longer than 2^12 bytes, and none is read behind the end: no cursor overflows.
    variables: uint256 = unsafe_add(op.rank, op.fold_rank)
    self._require(unsafe_add(HEAD_BYTES, unsafe_mul(SIZE_BYTES, variables)) <= end)
    cursor: uint256 = HEAD_BYTES
    for i: uint256 in range(variables, bound=nodes.MAX_SIZES):
        cursor = unsafe_add(cursor, SIZE_BYTES)
        op.sizes[i] = convert(extract32(padded, cursor), uint256) & nodes.U64
    width: uint256 = nodes.get_width(op.dtype)
    self._require_small(nodes.get_elements(op), width)
    self._require_small(nodes.get_fold_length(op), width)
    if op.kind == nodes.GATHER:
        # The values of its index operands, of which there are seven at most.
        variables = unsafe_add(variables, unsafe_sub(op.operand_count, 1))
    for place: uint256 in range(op.operand_count, bound=types.MAX_OPERANDS):
        operand: uint256 = self._decode_operand(padded, cursor)
        op.operands[place] = operand
        cursor = self._check_rows(padded, operand, variables, width)
        # Only the data of a gather is read where its indices say.
        variables = unsafe_add(op.rank, op.fold_rank)
    op.tail = cursor
    self._require(self._has_types(op) and self._has_function(op))
    self._check_tail(padded, op)
    return op


@internal
@pure
def read(padded: Bytes[nodes.MAX_PADDED_BYTES]) -> nodes.Operator:
    """
    @notice Return an operator that `decode` accepts.
    @param padded The padded encoding.
    @return The operator.
    """
    op: nodes.Operator = self._read_head(convert(extract32(padded, HEAD_BYTES), uint256))
    cursor: uint256 = HEAD_BYTES
    for i: uint256 in range(unsafe_add(op.rank, op.fold_rank), bound=nodes.MAX_SIZES):
        cursor = unsafe_add(cursor, SIZE_BYTES)
        op.sizes[i] = convert(extract32(padded, cursor), uint256) & nodes.U64
    for place: uint256 in range(op.operand_count, bound=types.MAX_OPERANDS):
        cursor = unsafe_add(cursor, OPERAND_BYTES)
        operand: uint256 = self._read_operand(
            convert(extract32(padded, cursor), uint256), cursor
        )
        op.operands[place] = operand
        for _: uint256 in range(nodes.get_row_count(operand), bound=nodes.MAX_ROWS):
            cursor = unsafe_add(cursor, nodes.ROW_BYTES)
            terms: uint256 = convert(extract32(padded, cursor), uint256) & nodes.U8
            cursor = unsafe_add(cursor, unsafe_mul(nodes.TERM_BYTES, terms))
    op.tail = cursor
    return op


@internal
@pure
def _read_head(head: uint256) -> nodes.Operator:
    op: nodes.Operator = empty(nodes.Operator)
    op.kind = head >> 40
    op.function = (head >> 32) & nodes.U8
    op.dtype = (head >> 24) & nodes.U8
    op.rank = (head >> 16) & nodes.U8
    op.fold_rank = (head >> 8) & nodes.U8
    op.operand_count = head & nodes.U8
    return op


@internal
@pure
def _read_operand(fields: uint256, behind: uint256) -> uint256:
    # An operand's word, from its fields, which end at a place in the encoding.
    return fields & ((1 << nodes.ROWS_AT) - 1) | behind << nodes.ROWS_AT


@internal
@pure
def _decode_head(head: uint256) -> nodes.Operator:
    op: nodes.Operator = self._read_head(head)
    self._require(nodes.MAP <= op.kind and op.kind <= nodes.SINK)
    self._require((ALL >> op.function) & 1 == 1)
    self._require(nodes.get_width(op.dtype) != 0)
    self._require(op.rank <= nodes.MAX_RANK and op.fold_rank <= nodes.MAX_FOLD_RANK)
    self._require((op.fold_rank != 0) == nodes.is_fold(op.kind))
    counts: uint256 = OPERAND_COUNTS >> (op.kind << 3)
    self._require(counts & 15 <= op.operand_count and op.operand_count <= (counts >> 4) & 15)
    return op


@internal
@pure
def _decode_operand(padded: Bytes[nodes.MAX_PADDED_BYTES], start: uint256) -> uint256:
    # `start` is at most the length of the encoding.
    cursor: uint256 = unsafe_add(start, OPERAND_BYTES)
    self._require(cursor <= unsafe_sub(len(padded), nodes.PADDING))
    fields: uint256 = convert(extract32(padded, cursor), uint256)
    operand: uint256 = self._read_operand(fields, cursor)
    dtype: uint256 = nodes.get_dtype(operand)
    bits: uint256 = nodes.get_value(operand)
    width: uint256 = nodes.get_width(dtype)
    self._require(width != 0 and bits >> (width << 3) == 0 and self._is_canonical(dtype, bits))
    self._require(nodes.get_row_count(operand) <= nodes.MAX_ROWS)
    self._require(nodes.get_origin(operand) <= nodes.FROM_BATCH)
    if nodes.get_origin(operand) == nodes.IMMEDIATE:
        self._require(nodes.get_row_count(operand) == 0 and nodes.get_reference(operand) == 0)
    return operand


@internal
@pure
def _is_canonical(dtype: uint256, bits: uint256) -> bool:
    # Whether bits of its width are what an element of the type is committed as.
    number: uint256 = bits
    if dtype != nodes.FLOAT32:
        if dtype == nodes.BOOL:
            return bits <= 1
        if dtype != nodes.BFLOAT16:
            return True
        number = bits << scalar.LOWER_BITS
    return number == float32.NAN or not float32.is_nan(number)


@internal
@pure
def _has_types(op: nodes.Operator) -> bool:
    # Whether the operands have types that the kind allows; a map's are its function's affair.
    if op.kind == nodes.MAP:
        return True
    is_search: bool = nodes.is_search(op.kind, op.function)
    indices: uint256 = types.MAX_OPERANDS
    if op.kind == nodes.GATHER:
        indices = 1
    elif op.kind == nodes.SCATTER:
        indices = 2
    for place: uint256 in range(op.operand_count, bound=types.MAX_OPERANDS):
        dtype: uint256 = nodes.get_dtype(op.operands[place])
        if place >= indices:
            if dtype != nodes.INT64 and dtype != nodes.INT32:
                return False
        elif place == 1 and is_search:
            if op.dtype != nodes.INT64:
                return False
        elif dtype != op.dtype:
            short: uint256 = 0
            if op.dtype == nodes.INT32:
                short = nodes.INT8
            elif op.dtype == nodes.FLOAT32:
                short = factors.SHORT
            if (
                op.kind != nodes.CONTRACT
                or place == 0
                or dtype != short
                # The other one's place is 2 or 1.
                or nodes.get_dtype(op.operands[unsafe_sub(3, place)]) != short
            ):
                return False
    return True


@internal
@pure
def _has_function(op: nodes.Operator) -> bool:
    # Whether the kind has this function, and the function is defined for the operands.
    if op.kind == nodes.MAP:
        return self._is_defined(
            op.function,
            nodes.get_dtype(op.operands[0]),
            nodes.get_dtype(op.operands[1]),
            nodes.get_dtype(op.operands[2]),
            op.dtype,
        )
    if op.kind == nodes.CONTRACT:
        return op.function == scalar.FMA and op.dtype < nodes.BOOL
    if op.kind == nodes.RANDOM:
        return op.function == nodes.UNIFORM and op.dtype == nodes.FLOAT32
    if nodes.is_fold(op.kind) and (FOLDED >> op.function) & 1 == 1:
        return self._is_defined(op.function, op.dtype, op.dtype, 0, op.dtype)
    return nodes.is_search(op.kind, op.function) or (
        op.kind != nodes.REDUCE and op.function == scalar.COPY
    )


@internal
@pure
def _is_defined(
    function: uint256, type_0: uint256, type_1: uint256, type_2: uint256, result_type: uint256
) -> bool:
    # Whether the arithmetic defines a function, known to the chain or not, for these types.
    if function < nodes.FIRST_TRANSCENDENTAL:
        return scalar.is_known(function) and scalar._is_defined(
            function, type_0, type_1, type_2, result_type
        )
    expected_1: uint256 = 0
    if function == POW:
        expected_1 = nodes.FLOAT32
    has_operands: bool = type_0 == nodes.FLOAT32 and type_1 == expected_1 and type_2 == 0
    return has_operands and result_type == nodes.FLOAT32


@internal
@pure
def _check_rows(
    padded: Bytes[nodes.MAX_PADDED_BYTES], operand: uint256, variables: uint256, width: uint256
) -> uint256:
    # The place behind the rows, which are right for so many variables and elements of this width.
    end: uint256 = unsafe_sub(len(padded), nodes.PADDING)
    cursor: uint256 = operand >> nodes.ROWS_AT
    elements: uint256 = 1
    for r: uint256 in range(nodes.get_row_count(operand), bound=nodes.MAX_ROWS):
        cursor = unsafe_add(cursor, nodes.ROW_BYTES)
        self._require(cursor <= end)
        row: uint256 = convert(extract32(padded, cursor), uint256)
        terms: uint256 = row & nodes.U8
        behind: uint256 = unsafe_add(cursor, unsafe_mul(nodes.TERM_BYTES, terms))
        self._require((row >> 72) & nodes.U32 != 0 and terms <= nodes.MAX_TERMS and behind <= end)
        least: uint256 = 0
        for t: uint256 in range(terms, bound=nodes.MAX_TERMS):
            cursor = unsafe_add(cursor, nodes.TERM_BYTES)
            term: uint256 = convert(extract32(padded, cursor), uint256)
            variable: uint256 = (term >> 64) & nodes.U8
            self._require(least <= variable and variable < variables and term & nodes.U64 != 0)
            least = unsafe_add(variable, 1)
        elements = nodes.multiply_sizes(elements, (row >> 104) & nodes.U64)
    self._require_small(elements, width)
    return cursor


@internal
@pure
def _check_tail(padded: Bytes[nodes.MAX_PADDED_BYTES], op: nodes.Operator):
    # No cursor went behind the end.
    rest: uint256 = unsafe_sub(unsafe_sub(len(padded), nodes.PADDING), op.tail)
    if op.kind == nodes.RANDOM:
        self._require(rest == TAIL_OF_RANDOM)
    elif op.kind == nodes.SCATTER:
        # A scatter has three operands at least.
        self._require(rest == unsafe_sub(op.operand_count, 2))
        for i: uint256 in range(rest, bound=types.MAX_OPERANDS):
            self._require(nodes.get_target(padded, op, i) < op.rank)
    else:
        self._require(rest == 0)


@internal
@pure
def _require_small(elements: uint256, width: uint256):
    # At most 2^63 times 8.
    self._require(unsafe_mul(elements, width) < nodes.TOO_LARGE)


@internal
@pure
def _require(condition: bool):
    assert condition, "leaf: operator is malformed"
