# pragma version 0.4.3
"""
@title The leaf: one scalar operation over operands that are proven against the agreed roots
@license Apache-2.0
@notice Stateless: whoever asks is told what an element or an accumulator should be, given what
        both sides of a match agree on. contracts/model/leaf.py is the specification, and
        offchain/programs/semantics.py what every operator kind computes.
"""

import decoder
import ILeaf
import merkle
import nodes
import philox
import scalar
import tags
import tensors
import types

implements: ILeaf

# The place of the best element so far among the openings of an argmax or argmin.
BEST_PLACE: constant(uint256) = 2

# Comparisons of a search, beside equality.
NE: constant(uint256) = 12
LT: constant(uint256) = 13
GT: constant(uint256) = 15


@external
@pure
def compute(
    context: types.Context,
    encoding: Bytes[types.MAX_NODE_BYTES],
    openings: DynArray[types.Opening, types.MAX_OPERANDS],
) -> uint256:
    """
    @notice Return what a disputed element, or accumulator, should be.
    @param context What both sides agree on, and the disputed place.
    @param encoding The operator.
    @param openings The proofs of the operands' elements, by the operand's place.
    @return The bits.
    """
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    op: nodes.Operator = decoder.decode(padded)
    assert self._is_known(op), "leaf: the chain does not know this function"
    variables: int256[nodes.MAX_VARIABLES] = self._get_variables(op, context)
    # The first value of a fold is the accumulator before this step.
    values: uint256[types.MAX_OPERANDS] = empty(uint256[types.MAX_OPERANDS])
    values[0] = context.accumulator
    last: uint256 = 0
    places: DynArray[uint256, types.MAX_OPERANDS] = self._get_places(
        padded, op, context.position, variables
    )
    for place: uint256 in places:
        operand: uint256 = op.operands[place]
        if place == BEST_PLACE and nodes.is_search(op):
            if values[0] >= nodes.get_fold_length(op):
                return context.position
            operand = op.operands[1]
            variables = nodes.unravel(variables, values[0], op, op.rank, op.fold_rank)
        opening: types.Opening = empty(types.Opening)
        if place < len(openings):
            opening = openings[place]
        last = self._read(padded, operand, variables, context, opening)
        values[place] = last
        if op.kind == nodes.GATHER and place != 0:
            # A gather's index operands come after at most eight output dimensions.
            variables[unsafe_sub(unsafe_add(op.rank, place), 1)] = nodes.get_signed(
                nodes.get_dtype(operand), last
            )
        elif op.kind == nodes.SCATTER and place >= 2:
            target: uint256 = nodes.get_target(padded, op, unsafe_sub(place, 2))
            if nodes.get_signed(nodes.get_dtype(operand), last) != variables[target]:
                return values[0]
    return self._combine(padded, op, context, values, last)


@external
@pure
def inspect(encoding: Bytes[types.MAX_NODE_BYTES], top: bytes32) -> types.Summary:
    """
    @notice Return what the referee has to know of an operator, or revert if it is malformed.
    @param encoding The operator.
    @param top The top of its output's chunks; ignored if it has no elements.
    @return Its element's width, its elements, its fold steps, and the root of its output.
    """
    op: nodes.Operator = decoder.decode(nodes.pad(encoding))
    fold_length: uint256 = 0
    if nodes.is_fold(op):
        fold_length = nodes.get_fold_length(op)
    elements: uint256 = nodes.get_elements(op)
    output_top: bytes32 = top
    if elements == 0:
        output_top = tensors.EMPTY_TOP
    return types.Summary(
        width=nodes.get_width(op.dtype),
        elements=elements,
        fold_length=fold_length,
        output_root=self._hash_output(encoding, op.rank, output_top),
    )


@external
@pure
def is_known(encoding: Bytes[types.MAX_NODE_BYTES]) -> bool:
    """
    @notice Whether the chain can compute an operator's scalar function.
    @param encoding The operator; reverts if it is malformed.
    @return Whether it is so.
    """
    op: nodes.Operator = decoder.decode(nodes.pad(encoding))
    return self._is_known(op)


@internal
@pure
def _hash_output(
    encoding: Bytes[types.MAX_NODE_BYTES], rank: uint256, top: bytes32
) -> bytes32:
    # The third and fourth byte are type and rank, and from the seventh on are the dimensions.
    header: Bytes[types.MAX_NODE_BYTES + 2] = concat(
        slice(encoding, 2, 2), slice(encoding, decoder.HEAD_BYTES, rank << 3)
    )
    return keccak256(concat(tags.TENSOR_ROOT, header, top))


@internal
@pure
def _is_known(op: nodes.Operator) -> bool:
    return op.function < nodes.FIRST_TRANSCENDENTAL or scalar.is_known(op.function)


@internal
@pure
def _get_variables(
    op: nodes.Operator, context: types.Context
) -> int256[nodes.MAX_VARIABLES]:
    # The indices of the output and of the fold, if that has any steps.
    variables: int256[nodes.MAX_VARIABLES] = empty(int256[nodes.MAX_VARIABLES])
    variables = nodes.unravel(variables, context.element, op, 0, op.rank)
    if nodes.get_fold_length(op) == 0:
        return variables
    return nodes.unravel(variables, context.position, op, op.rank, op.fold_rank)


@internal
@pure
def _get_places(
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    op: nodes.Operator,
    position: uint256,
    variables: int256[nodes.MAX_VARIABLES],
) -> DynArray[uint256, types.MAX_OPERANDS]:
    # The operands that this operation reads, in the order of the specification.
    places: DynArray[uint256, types.MAX_OPERANDS] = []
    is_fold: bool = nodes.is_fold(op)
    if op.kind == nodes.MAP or (is_fold and position == 0):
        places.append(0)
    if op.operand_count == 0 or (is_fold and nodes.get_fold_length(op) == 0):
        return places
    if op.kind == nodes.MOVE or op.kind == nodes.SOURCE or op.kind == nodes.SINK:
        return [self._choose(padded, op, variables)]
    first: uint256 = 1
    if op.kind == nodes.SCATTER:
        first = 2
    for place: uint256 in range(first, op.operand_count, bound=types.MAX_OPERANDS):
        places.append(place)
    if op.kind == nodes.SCATTER:
        places.append(1)
    elif op.kind == nodes.GATHER:
        places.append(0)
    elif nodes.is_search(op):
        places.append(BEST_PLACE)
    return places


@internal
@pure
def _choose(
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    op: nodes.Operator,
    variables: int256[nodes.MAX_VARIABLES],
) -> uint256:
    # The first candidate of a move that is a constant or in range, or the last one.
    place: uint256 = 0
    for _: uint256 in range(unsafe_sub(op.operand_count, 1), bound=types.MAX_OPERANDS):
        operand: uint256 = op.operands[place]
        is_inside: bool = nodes.get_origin(operand) == nodes.IMMEDIATE
        if not is_inside:
            index: uint256 = 0
            is_inside, index = nodes.locate(padded, operand, variables)
        if is_inside:
            break
        place = unsafe_add(place, 1)
    return place


@internal
@pure
def _read(
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    operand: uint256,
    variables: int256[nodes.MAX_VARIABLES],
    context: types.Context,
    opening: types.Opening,
) -> uint256:
    is_inside: bool = False
    index: uint256 = 0
    if nodes.get_origin(operand) != nodes.IMMEDIATE:
        is_inside, index = nodes.locate(padded, operand, variables)
    if not is_inside:
        return nodes.get_value(operand)
    return self._open_element(context, operand, index, opening)


@internal
@pure
def _open_element(
    context: types.Context, operand: uint256, index: uint256, opening: types.Opening
) -> uint256:
    width: uint256 = nodes.get_width(nodes.get_dtype(operand))
    size: uint256 = self._get_size(opening.header, nodes.get_dtype(operand))
    # An index is below 2^63, a width at most 8.
    offset: uint256 = unsafe_mul(index, width)
    start: uint256 = offset % types.CHUNK_BYTES
    self._require(unsafe_add(start, width) <= len(opening.chunk))
    count: uint256 = tensors.get_chunk_count(size)
    is_proven: bool = False
    top: bytes32 = empty(bytes32)
    is_proven, top = merkle.climb(
        tags.TENSOR_NODE,
        tensors.hash_chunk(opening.chunk),
        unsafe_div(offset, types.CHUNK_BYTES),
        count,
        0,
        merkle.get_height(count),
        opening.chunk_proof,
    )
    self._require(is_proven)
    root: bytes32 = tensors.hash_tensor(opening.header, top)
    self._require(self._is_agreed(context, operand, root, opening.root_proof))
    return tensors.read_element(opening.chunk, start, width)


@internal
@pure
def _get_size(header: Bytes[types.MAX_HEADER_BYTES], dtype: uint256) -> uint256:
    # The bytes of a tensor's elements, from a header that must be of this element type.
    self._require(len(header) >= 2)
    padded: Bytes[types.MAX_HEADER_BYTES + 32] = concat(empty(bytes32), header)
    head: uint256 = convert(extract32(padded, 2), uint256)
    rank: uint256 = head & nodes.U8
    self._require(head >> 8 == dtype and rank <= nodes.MAX_RANK)
    self._require(len(header) == unsafe_add(2, rank << 3))
    elements: uint256 = 1
    for i: uint256 in range(rank, bound=nodes.MAX_RANK):
        end: uint256 = unsafe_add(10, i << 3)
        dimension: uint256 = convert(extract32(padded, end), uint256) & nodes.U64
        elements = nodes.multiply_sizes(elements, dimension)
    # At most 2^63 times 8.
    size: uint256 = unsafe_mul(elements, nodes.get_width(dtype))
    self._require(size < nodes.TOO_LARGE)
    return size


@internal
@pure
def _is_agreed(
    context: types.Context,
    operand: uint256,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
) -> bool:
    origin: uint256 = nodes.get_origin(operand)
    tag: bytes1 = tags.DATA_NODE
    # Steps are at most 2^32, slots 2^16.
    count: uint256 = unsafe_mul(context.steps, context.batch_slots)
    index: uint256 = nodes.get_reference(operand)
    if origin == nodes.FROM_NODE:
        tag = tags.TRACE_NODE
        count = unsafe_add(context.operators, 1)
    elif origin == nodes.FROM_STATE:
        tag = tags.STATE_NODE
        count = context.state_slots
    else:
        index = unsafe_add(unsafe_mul(context.step, context.batch_slots), index)
    is_proven: bool = False
    top: bytes32 = empty(bytes32)
    height: uint256 = merkle.get_height(count)
    is_proven, top = merkle.climb(tag, root, index, count, 0, height, proof)
    self._require(is_proven)
    if origin == nodes.FROM_NODE:
        return top == context.trace_top
    if origin == nodes.FROM_STATE:
        return merkle.hash_root(tags.STATE_ROOT, count, top) == context.before
    return top == context.data_top


@internal
@pure
def _combine(
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    op: nodes.Operator,
    context: types.Context,
    values: uint256[types.MAX_OPERANDS],
    last: uint256,
) -> uint256:
    # What the kind makes of the values that have been read, the last of which is `last`.
    if op.kind == nodes.RANDOM:
        return self._draw(padded, context)
    if op.kind == nodes.MAP:
        return self._map(op, values)
    if nodes.is_fold(op):
        return self._accumulate(op, values, context.position)
    return last


@internal
@pure
def _draw(padded: Bytes[nodes.MAX_PADDED_BYTES], context: types.Context) -> uint256:
    # The encoding of a random operator ends with its seed and its stream.
    tail: uint256 = convert(extract32(padded, unsafe_sub(len(padded), nodes.PADDING)), uint256)
    return philox.uniform(
        (tail >> 32) & nodes.U64, context.step, tail & nodes.U32, context.element
    )


@internal
@pure
def _map(op: nodes.Operator, values: uint256[types.MAX_OPERANDS]) -> uint256:
    return scalar.evaluate(
        op.function,
        nodes.get_dtype(op.operands[0]),
        nodes.get_dtype(op.operands[1]),
        nodes.get_dtype(op.operands[2]),
        op.dtype,
        values[0],
        values[1],
        values[2],
    )


@internal
@pure
def _accumulate(
    op: nodes.Operator, values: uint256[types.MAX_OPERANDS], position: uint256
) -> uint256:
    if nodes.get_fold_length(op) == 0:
        return values[0]
    if op.kind == nodes.CONTRACT:
        return scalar.evaluate(
            scalar.FMA, op.dtype, op.dtype, op.dtype, op.dtype, values[1], values[2], values[0]
        )
    if nodes.is_search(op):
        if self._is_better(op, values[1], values[BEST_PLACE]):
            return position
        return values[0]
    if op.kind == nodes.SCATTER and op.function == scalar.COPY:
        return values[1]
    return self._evaluate(op.function, op.dtype, op.dtype, values[0], values[1])


@internal
@pure
def _is_better(op: nodes.Operator, candidate: uint256, best: uint256) -> bool:
    # NaN beats all numbers, and the first of equals stays.
    dtype: uint256 = nodes.get_dtype(op.operands[1])
    compare: uint256 = GT
    if op.function == nodes.ARGMIN:
        compare = LT
    if self._evaluate(compare, dtype, nodes.BOOL, candidate, best) == 1:
        return True
    if self._evaluate(NE, dtype, nodes.BOOL, candidate, candidate) == 0:
        return False
    return self._evaluate(scalar.EQ, dtype, nodes.BOOL, best, best) == 1


@internal
@pure
def _evaluate(
    function: uint256, dtype: uint256, result_dtype: uint256, x: uint256, y: uint256
) -> uint256:
    return scalar.evaluate(function, dtype, dtype, 0, result_dtype, x, y, 0)


@internal
@pure
def _require(condition: bool):
    assert condition, "leaf: operand does not match"
