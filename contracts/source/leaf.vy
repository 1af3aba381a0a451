# pragma version 0.4.3
"""
@title The leaf: one scalar operation over operands that are proven against the agreed roots
@license Apache-2.0
@notice Stateless: it asks the referee what both sides of a match agree on, computes what the
        disputed element or accumulator should be, and tells the referee, which believes nobody
        else. contracts/model/leaf.py is the specification, and offchain/programs/semantics.py what
        every operator kind computes.
@dev Evidence is long, so it is read where it lies, in the call's data, and never copied.
"""

import decoder
import float32
import ILeaf
import IReferee
import ITranscendental
import ledger
import merkle
import nodes
import philox
import scalar
import tags
import tensors
import types

implements: ILeaf

# Kinds of operators that pass on one of their operands.
SELECTIONS: constant(uint256) = 1 << nodes.MOVE | 1 << nodes.SOURCE | 1 << nodes.SINK
# The place of the best element so far among the openings of an argmax or argmin.
BEST_PLACE: constant(uint256) = 2

# Bytes of the header of a tensor of rank 0 and of a chunk.
SHORTEST_PROOF: constant(uint256) = 2 + types.CHUNK_BYTES

# Comparisons of a search, beside equality.
NE: constant(uint256) = 12
LT: constant(uint256) = 13
GT: constant(uint256) = 15

# Where the calls' heads say at which byte the evidence begins, and where that is counted from.
EVIDENCE_OF_LEAF: constant(uint256) = 4 + 21 * 32
EVIDENCE_OF_COMPUTE: constant(uint256) = 4 + 13 * 32
HEAD_AT: constant(uint256) = 4


# The latest proof that led up to the top of the trace or of the state: where from, and where its
# siblings begin in the call's data. No other tree has its tag.
struct Path:
    tag: bytes1
    index: uint256
    root: bytes32
    siblings: uint256


TRANSCENDENTAL: immutable(ITranscendental)


@deploy
def __init__(transcendental: address):
    """
    @notice Remember who computes transcendental functions.
    @param transcendental The contract that does, transcendental.vy.
    """
    TRANSCENDENTAL = ITranscendental(transcendental)


@external
def leaf(
    referee: address,
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    side: uint256,
    encoding: Bytes[types.MAX_NODE_BYTES],
    before: bytes32,
    before_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    evidence: Bytes[types.MAX_EVIDENCE_BYTES],
):
    """
    @notice Compute the one scalar operation that is left of a match, from proven operands, and let
            the referee decide.
    @param referee The contract on which the match is played.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param side Whose trees the operands are proven against: they agree on all that is read.
    @param encoding The operator.
    @param before The state before the step, if an operand comes from it.
    @param before_proof Its proof against the history or the interval; none of the job's start.
    @param evidence The proofs of the elements that are read, in that order and all of them; each is
           the tensor's header, the element's chunk, followed by zeros if it is shorter than others,
           the siblings from there up to the tensor root, and those up to an agreed root, or to
           where they meet the latest proof in the same tree that led up to it.
    """
    # Behind the longest evidence memory is dear: all else is done below it.
    self._decide(
        IReferee(referee),
        pair,
        position,
        facts,
        side,
        encoding,
        before,
        before_proof,
        len(evidence),
    )


@external
@view
def compute(
    context: types.Context,
    encoding: Bytes[types.MAX_NODE_BYTES],
    evidence: Bytes[types.MAX_EVIDENCE_BYTES],
) -> uint256:
    """
    @notice Return what a disputed element, or accumulator, should be.
    @param context What both sides agree on, and the disputed place.
    @param encoding The operator.
    @param evidence The proofs, as `leaf` takes them.
    @return The bits.
    """
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    decoder.decode(padded)
    start: uint256 = self._find_evidence(EVIDENCE_OF_COMPUTE, len(evidence))
    end: uint256 = unsafe_add(start, len(evidence))
    return self._compute(context, padded, decoder.read(padded), start, end)


@external
@pure
def inspect(encoding: Bytes[types.MAX_NODE_BYTES]) -> types.Summary:
    """
    @notice Return what the referee has to know of an operator, or revert if it is malformed.
    @param encoding The operator.
    @return Its element's width, its elements, its fold steps.
    """
    op: nodes.Operator = decoder.decode(nodes.pad(encoding))
    fold_length: uint256 = 0
    if nodes.is_fold(op.kind):
        fold_length = nodes.get_fold_length(op)
    return types.Summary(
        width=nodes.get_width(op.dtype),
        elements=nodes.get_elements(op),
        fold_length=fold_length,
    )


@internal
def _decide(
    referee: IReferee,
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    side: uint256,
    encoding: Bytes[types.MAX_NODE_BYTES],
    before: bytes32,
    before_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    size: uint256,
):
    # `leaf`, for evidence of so many bytes.
    digest: bytes32 = nodes.hash_encoding(encoding)
    ground: types.Ground = staticcall referee.prepare_leaf(pair, position, facts, side, digest)
    context: types.Context = ground.context
    context.before = before
    context.has_before = self._is_before(ground.before, before, before_proof)
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    # It was inspected when the match came to it.
    op: nodes.Operator = decoder.read(padded)
    if nodes.has_origin(op, nodes.FROM_BATCH):
        context.data_top = (staticcall referee.jobs(pair.job_id)).data_top
    start: uint256 = self._find_evidence(EVIDENCE_OF_LEAF, size)
    computed: uint256 = self._compute(context, padded, op, start, unsafe_add(start, size))
    extcall referee.decide_leaf(pair, facts.bits, computed)


@internal
@view
def _find_evidence(head: uint256, size: uint256) -> uint256:
    # The place in the call's data where the bytes of the evidence begin, behind their length. All
    # of them lie behind the call's heads and within its data: the compiler's decoder follows any
    # pointer, and reads zeros behind the end.
    offset: uint256 = convert(self._read(head), uint256)
    self._require(head < unsafe_add(offset, HEAD_AT) and offset < len(msg.data))
    start: uint256 = unsafe_add(offset, HEAD_AT + 32)
    # Evidence is short, and the offset is below the length of the data.
    self._require(unsafe_add(start, size) <= len(msg.data))
    return start


@internal
@view
def _read(start: uint256) -> bytes32:
    # A word of the call's data.
    return convert(slice(msg.data, start, 32), bytes32)


@internal
@pure
def _is_before(
    place: types.Before, before: bytes32, proof: DynArray[bytes32, merkle.MAX_HEIGHT]
) -> bool:
    # Whether this is the agreed state before the step.
    is_whole: bool = False
    top: bytes32 = empty(bytes32)
    height: uint256 = merkle.get_height(place.count)
    is_whole, top = merkle.climb(place.tag, before, place.index, place.count, 0, height, proof)
    return is_whole and ledger.hash_top(top) == place.key


@internal
@view
def _compute(
    context: types.Context,
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    op: nodes.Operator,
    start: uint256,
    end: uint256,
) -> uint256:
    # What should be, given the evidence between two places in the call's data.
    variables: int256[nodes.MAX_VARIABLES] = self._get_variables(op, context)
    # The first value of a fold is the accumulator before this step.
    values: uint256[types.MAX_OPERANDS] = empty(uint256[types.MAX_OPERANDS])
    values[0] = context.accumulator
    last: uint256 = 0
    cursor: uint256 = start
    known: Path = empty(Path)
    places: DynArray[uint256, types.MAX_OPERANDS] = []
    if (SELECTIONS >> op.kind) & 1 == 1:
        places.append(self._choose(padded, op, variables))
    else:
        places = self._get_places(op, context.position)
    for place: uint256 in places:
        operand: uint256 = op.operands[place]
        if place == BEST_PLACE and nodes.is_search(op.kind, op.function):
            if values[0] >= nodes.get_fold_length(op):
                self._require(cursor == end)
                return context.position
            operand = op.operands[1]
            variables = nodes.unravel(variables, values[0], op, op.rank, op.fold_rank)
        last = nodes.get_value(operand)
        if nodes.get_origin(operand) != nodes.IMMEDIATE:
            is_inside: bool = False
            index: uint256 = 0
            is_inside, index = nodes.locate(padded, operand, variables)
            if is_inside:
                root: bytes32 = empty(bytes32)
                last, root, cursor = self._open_element(operand, index, cursor, end)
                known, cursor = self._agree(context, operand, root, known, cursor, end)
        values[place] = last
        if op.kind == nodes.GATHER and place != 0:
            # A gather's index operands come after at most eight output dimensions.
            variables[unsafe_sub(unsafe_add(op.rank, place), 1)] = nodes.get_signed(
                nodes.get_dtype(operand), last
            )
        elif op.kind == nodes.SCATTER and place >= 2:
            target: uint256 = nodes.get_target(padded, op, unsafe_sub(place, 2))
            if nodes.get_signed(nodes.get_dtype(operand), last) != variables[target]:
                self._require(cursor == end)
                return values[0]
    self._require(cursor == end)
    if op.kind == nodes.RANDOM:
        # The encoding of a random operator ends with its seed and its stream.
        tail: bytes32 = extract32(padded, unsafe_sub(len(padded), nodes.PADDING))
        return self._draw(convert(tail, uint256), context)
    if op.kind == nodes.MAP:
        return self._map(op, values)
    if nodes.is_fold(op.kind):
        return self._accumulate(op, values, context.position)
    return last


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
    op: nodes.Operator, position: uint256
) -> DynArray[uint256, types.MAX_OPERANDS]:
    # The operands that this operation reads, in the order of the specification.
    places: DynArray[uint256, types.MAX_OPERANDS] = []
    is_fold: bool = nodes.is_fold(op.kind)
    if op.kind == nodes.MAP or (is_fold and position == 0):
        places.append(0)
    if op.operand_count == 0 or (is_fold and nodes.get_fold_length(op) == 0):
        return places
    first: uint256 = 1
    if op.kind == nodes.SCATTER:
        first = 2
    for place: uint256 in range(first, op.operand_count, bound=types.MAX_OPERANDS):
        places.append(place)
    if op.kind == nodes.SCATTER:
        places.append(1)
    elif op.kind == nodes.GATHER:
        places.append(0)
    elif nodes.is_search(op.kind, op.function):
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
@view
def _open_element(
    operand: uint256, index: uint256, start: uint256, end: uint256
) -> (uint256, bytes32, uint256):
    # An element, the root of the tensor that has it, and the place behind the proof of this. An
    # index is below 2^63, a width at most 8, and `start` at most `end`.
    self._require(unsafe_add(start, SHORTEST_PROOF) <= end)
    # With the 32 bytes in front of it, the longest header.
    padded: Bytes[types.MAX_PADDED_HEADER] = slice(
        msg.data, unsafe_sub(start, 32), types.MAX_PADDED_HEADER
    )
    rank: uint256 = convert(extract32(padded, 2), uint256) & nodes.U8
    self._require(rank <= nodes.MAX_RANK)
    header: Bytes[types.MAX_PADDED_HEADER] = slice(padded, 32, unsafe_add(2, rank << 3))
    cursor: uint256 = unsafe_add(start, unsafe_add(2, rank << 3))
    # There is a chunk behind the header.
    behind: uint256 = unsafe_add(cursor, types.CHUNK_BYTES)
    self._require(behind <= end)
    size: uint256 = self._get_size(padded, rank, nodes.get_dtype(operand))
    width: uint256 = nodes.get_width(nodes.get_dtype(operand))
    offset: uint256 = unsafe_mul(index, width)
    self._require(offset < size)
    place: uint256 = unsafe_div(offset, types.CHUNK_BYTES)
    offset = offset % types.CHUNK_BYTES
    length: uint256 = min(
        unsafe_sub(size, unsafe_mul(place, types.CHUNK_BYTES)), types.CHUNK_BYTES
    )
    chunk: Bytes[types.CHUNK_BYTES] = slice(msg.data, cursor, types.CHUNK_BYTES)
    node: bytes32 = tensors.hash_chunk(slice(chunk, 0, length))
    # The word that ends with the element: there are more than 32 bytes in front of it.
    word: bytes32 = self._read(unsafe_sub(unsafe_add(cursor, unsafe_add(offset, width)), 32))
    # No tensor has more than 2^55 chunks.
    last: uint256 = unsafe_sub(tensors.get_chunk_count(size), 1)
    node, cursor = self._climb(
        tags.TENSOR_NODE, node, place, last, merkle.MAX_HEIGHT, behind, end
    )
    bits: uint256 = tensors.reverse(convert(word, uint256), width)
    return bits, tensors.hash_tensor(header, node), cursor


@internal
@view
def _agree(
    context: types.Context,
    operand: uint256,
    root: bytes32,
    known: Path,
    start: uint256,
    end: uint256,
) -> (Path, uint256):
    # Whether a tensor with this root lies where the operand's should, by siblings that start there
    # in the call's data; the proof that may be met next, and the place behind the siblings.
    tag: bytes1 = tags.TRACE_NODE
    place: uint256 = 0
    last: uint256 = 0
    tag, place, last = self._get_place(context, operand)
    node: bytes32 = empty(bytes32)
    cursor: uint256 = 0
    if tag == known.tag:
        if place == known.index:
            self._require(root == known.root)
            return known, start
        # Below the first node that both are under, this one is the other's sibling.
        height: uint256 = unsafe_sub(merkle.get_bit_length(place ^ known.index), 1)
        node, cursor = self._climb(tag, root, place, last, height, start, end)
        self._require(node == self._find_sibling(known, last, height))
        return known, cursor
    node, cursor = self._climb(tag, root, place, last, merkle.MAX_HEIGHT, start, end)
    self._require(self._is_agreed(context, operand, node))
    if tag == tags.DATA_NODE:
        return known, cursor
    return Path(tag=tag, index=place, root=root, siblings=start), cursor


@internal
@view
def _climb(
    tag: bytes1,
    leaf: bytes32,
    index: uint256,
    last: uint256,
    height: uint256,
    start: uint256,
    end: uint256,
) -> (bytes32, uint256):
    # The node so high above a leaf of a tree, or its top if that is not so high, by siblings that
    # start there in the call's data; and the place behind these. `last` is the last leaf's index.
    node: bytes32 = leaf
    # As long as a level's last node is another one there is a sibling; then only a node with an odd
    # index has one.
    inner: uint256 = min(height, merkle.get_bit_length(index ^ last))
    cursor: uint256 = unsafe_add(start, inner << 5)
    self._require(cursor <= end)
    for level: uint256 in range(inner, bound=merkle.MAX_HEIGHT):
        if (index >> level) & 1 == 1:
            node = keccak256(
                concat(tag, slice(msg.data, unsafe_add(start, level << 5), 32), node)
            )
        else:
            node = keccak256(
                concat(tag, node, slice(msg.data, unsafe_add(start, level << 5), 32))
            )
    place: uint256 = index >> inner
    for _: uint256 in range(unsafe_sub(height, inner), bound=merkle.MAX_HEIGHT):
        if place == 0:
            break
        if place & 1 == 1:
            self._require(unsafe_add(cursor, 32) <= end)
            node = merkle.hash_node(tag, self._read(cursor), node)
            cursor = unsafe_add(cursor, 32)
        place >>= 1
    return node, cursor


@internal
@view
def _find_sibling(known: Path, last: uint256, height: uint256) -> bytes32:
    # The sibling that a proof has so high, where it has one.
    place: uint256 = known.index
    rest: uint256 = last
    cursor: uint256 = known.siblings
    for _: uint256 in range(height, bound=merkle.MAX_HEIGHT):
        if place | 1 <= rest:
            cursor = unsafe_add(cursor, 32)
        place >>= 1
        rest >>= 1
    return self._read(cursor)


@internal
@pure
def _get_size(padded: Bytes[types.MAX_PADDED_HEADER], rank: uint256, dtype: uint256) -> uint256:
    # The bytes of a tensor's elements, from a header that must be of this element type.
    self._require((convert(extract32(padded, 1), uint256) & nodes.U8) == dtype)
    elements: uint256 = 1
    end: uint256 = 2
    for _: uint256 in range(rank, bound=nodes.MAX_RANK):
        end = unsafe_add(end, 8)
        dimension: uint256 = convert(extract32(padded, end), uint256) & nodes.U64
        elements = min(unsafe_mul(elements, dimension), nodes.TOO_LARGE)
    # At most 2^63 times 8.
    size: uint256 = unsafe_mul(elements, nodes.get_width(dtype))
    self._require(size < nodes.TOO_LARGE)
    return size


@internal
@pure
def _get_place(context: types.Context, operand: uint256) -> (bytes1, uint256, uint256):
    # Where the tensor of an operand lies: the tag of the tree, its place in it, that of the last.
    origin: uint256 = nodes.get_origin(operand)
    place: uint256 = nodes.get_reference(operand)
    if origin == nodes.FROM_NODE:
        # Behind the operators is the state.
        self._require(place <= context.operators)
        return tags.TRACE_NODE, place, context.operators
    if origin == nodes.FROM_STATE:
        self._require(place < context.state_slots)
        return tags.STATE_NODE, place, unsafe_sub(context.state_slots, 1)
    # Steps are at most 2^32, slots 2^16.
    place = unsafe_add(unsafe_mul(context.step, context.batch_slots), place)
    count: uint256 = unsafe_mul(context.steps, context.batch_slots)
    self._require(place < count)
    return tags.DATA_NODE, place, unsafe_sub(count, 1)


@internal
@pure
def _is_agreed(context: types.Context, operand: uint256, top: bytes32) -> bool:
    # Whether this is the top of the tree that an operand's tensor lies in.
    origin: uint256 = nodes.get_origin(operand)
    if origin == nodes.FROM_NODE:
        return top == context.trace_top
    if origin == nodes.FROM_STATE:
        root: bytes32 = merkle.hash_root(tags.STATE_ROOT, context.state_slots, top)
        return context.has_before and root == context.before
    return top == context.data_top


@internal
@pure
def _draw(tail: uint256, context: types.Context) -> uint256:
    return philox.uniform(
        (tail >> 32) & nodes.U64, context.step, tail & nodes.U32, context.element
    )


@internal
@view
def _map(op: nodes.Operator, values: uint256[types.MAX_OPERANDS]) -> uint256:
    if op.function >= nodes.FIRST_TRANSCENDENTAL:
        return staticcall TRANSCENDENTAL.evaluate(op.function, values[0], values[1])
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
        return float32.fma(values[1], values[2], values[0])
    if nodes.is_search(op.kind, op.function):
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
