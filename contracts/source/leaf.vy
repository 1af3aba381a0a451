# pragma version 0.4.3
"""
@title The leaf: one scalar operation over operands that are proven against the agreed roots
@license Apache-2.0
@notice Stateless: it asks the referee what both sides of a match agree on, computes what the
        disputed element or accumulator should be, and tells the referee, which believes nobody
        else. contracts/model/leaf.py is the specification, and offchain/programs/semantics.py what
        every operator kind computes.
"""

import accumulators
import decoder
import float32
import ILeaf
import IReferee
import integers
import ITranscendental
import merkle
import nodes
import operands
import philox
import scalar
import types

implements: ILeaf

# Kinds of operators that pass on one of their operands.
SELECTIONS: constant(uint256) = 1 << nodes.MOVE | 1 << nodes.SOURCE | 1 << nodes.SINK
# The place of the best element so far among the openings of an argmax or argmin.
BEST_PLACE: constant(uint256) = 2

# Comparisons of a search, beside equality.
NE: constant(uint256) = 12
LT: constant(uint256) = 13
GT: constant(uint256) = 15

# Where the calls' heads say at which byte the evidence begins.
EVIDENCE_OF_LEAF: constant(uint256) = 4 + 21 * 32
EVIDENCE_OF_COMPUTE: constant(uint256) = 4 + 13 * 32

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
    facts: accumulators.Facts,
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
    start: uint256 = operands.find_evidence(EVIDENCE_OF_COMPUTE, len(evidence))
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
    facts: accumulators.Facts,
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
    context.has_before = operands.is_before(ground.before, before, before_proof)
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    # It was inspected when the match came to it.
    op: nodes.Operator = decoder.read(padded)
    if nodes.has_origin(op, nodes.FROM_BATCH):
        context.data_top = (staticcall referee.jobs(pair.job_id)).data_top
    start: uint256 = operands.find_evidence(EVIDENCE_OF_LEAF, size)
    computed: uint256 = self._compute(context, padded, op, start, unsafe_add(start, size))
    extcall referee.decide_leaf(pair, facts.bits, computed)


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
    variables: int256[nodes.MAX_VARIABLES] = operands.get_variables(op, context)
    # The first value of a fold is the accumulator before this step.
    values: uint256[types.MAX_OPERANDS] = empty(uint256[types.MAX_OPERANDS])
    values[0] = context.accumulator
    last: uint256 = 0
    cursor: uint256 = start
    known: operands.Path = empty(operands.Path)
    places: DynArray[uint256, types.MAX_OPERANDS] = []
    if (SELECTIONS >> op.kind) & 1 == 1:
        places.append(self._choose(padded, op, variables))
    else:
        places = self._get_places(op, context.position)
    for place: uint256 in places:
        operand: uint256 = op.operands[place]
        if place == BEST_PLACE and nodes.is_search(op.kind, op.function):
            if values[0] >= nodes.get_fold_length(op):
                operands.require(cursor == end)
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
                last, root, cursor = operands.open_element(operand, index, cursor, end)
                known, cursor = operands.agree(context, operand, root, known, cursor, end)
        values[place] = last
        if op.kind == nodes.GATHER and place != 0:
            # A gather's index operands come after at most eight output dimensions.
            variables[unsafe_sub(unsafe_add(op.rank, place), 1)] = nodes.get_signed(
                nodes.get_dtype(operand), last
            )
        elif op.kind == nodes.SCATTER and place >= 2:
            target: uint256 = nodes.get_target(padded, op, unsafe_sub(place, 2))
            if nodes.get_signed(nodes.get_dtype(operand), last) != variables[target]:
                operands.require(cursor == end)
                return values[0]
    operands.require(cursor == end)
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
        if op.dtype == nodes.FLOAT32:
            return float32.fma(values[1], values[2], values[0])
        width: uint256 = nodes.get_width(nodes.get_dtype(op.operands[1])) << 3
        # What is left modulo 2^32 or 2^64 is right.
        product: uint256 = unsafe_mul(
            integers.extend(width, values[1]), integers.extend(width, values[2])
        )
        return integers.add(nodes.get_width(op.dtype) << 3, values[0], product)
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
