# pragma version 0.4.3
"""
@title The leaf: one scalar operation over operands that are proven against the agreed roots
@license Apache-2.0
@notice Stateless: it asks the referee what both sides of a match agree on, computes what the
        disputed element or accumulator should be, and tells the referee, which believes nobody
        else. A sum takes one term more here, or is finished; folds.vy says which folds are sums, and
        sums.vy what that means. All other operators mean what they mean in `ordered`, and are left to its
        leaf. contracts/model/leaf.py is the specification, and offchain/programs/semantics.py what
        every operator kind computes.
"""

import accumulators
import decoder
import folds
import IElements
import ILeaf
import IReferee
import merkle
import nodes
import operands
import phases
import sums
import turns
import types
import words

implements: ILeaf

# Where the calls' heads say at which byte the evidence begins.
EVIDENCE_OF_LEAF: constant(uint256) = 4 + 29 * 32
EVIDENCE_OF_COMPUTE: constant(uint256) = 4 + 16 * 32

ELEMENTS: immutable(IElements)


@deploy
def __init__(elements: address):
    """
    @notice Remember who computes what is not a sum.
    @param elements The contract that does, the leaf of `ordered`.
    """
    ELEMENTS = IElements(elements)


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
    @param evidence The proofs of the elements that are read, as the leaf of `ordered` takes them.
    """
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    # It was inspected when the match came to it.
    op: nodes.Operator = decoder.read(padded)
    context: types.Context = self._prepare(
        IReferee(referee), pair, position, facts, side, encoding, op, before, before_proof
    )
    bits: bytes32[3] = facts.bits[0]
    if folds.is_sum(op.kind, op.function, op.dtype, op.operands[1]):
        bits = self._sum(context, bits, padded, op, EVIDENCE_OF_LEAF, len(evidence))
    else:
        context.accumulator = self._read(bits, facts.tensor >> turns.WIDTH_AT)
        bits = self._write(staticcall ELEMENTS.compute(context, encoding, evidence))
    right: bytes32 = self._hash(bits)
    outcome: uint256 = phases.NEITHER
    if self._hash(facts.bits[1]) == right:
        outcome = 0
    elif self._hash(facts.bits[2]) == right:
        outcome = 1
    extcall IReferee(referee).decide_leaf(pair, outcome, convert(right, uint256))


@external
@view
def compute(
    context: types.Context,
    low_bits: bytes32[3],
    encoding: Bytes[types.MAX_NODE_BYTES],
    evidence: Bytes[types.MAX_EVIDENCE_BYTES],
) -> bytes32[3]:
    """
    @notice Return what a disputed element, or accumulator, should be.
    @param context What both sides agree on, and the disputed place.
    @param low_bits The accumulator before it.
    @param encoding The operator.
    @param evidence The proofs, as `leaf` takes them.
    @return The bits.
    """
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    op: nodes.Operator = decoder.decode(padded)
    if folds.is_sum(op.kind, op.function, op.dtype, op.operands[1]):
        return self._sum(context, low_bits, padded, op, EVIDENCE_OF_COMPUTE, len(evidence))
    place: types.Context = context
    place.accumulator = self._read(low_bits, nodes.get_width(op.dtype))
    return self._write(staticcall ELEMENTS.compute(place, encoding, evidence))


@external
@pure
def inspect(encoding: Bytes[types.MAX_NODE_BYTES]) -> types.Summary:
    """
    @notice Return what the referee has to know of an operator, or revert if it is malformed.
    @param encoding The operator.
    @return Its element's width, its elements, its fold steps, of which the last finishes a sum.
    """
    op: nodes.Operator = decoder.decode(nodes.pad(encoding))
    fold_length: uint256 = 0
    if nodes.is_fold(op.kind):
        fold_length = nodes.get_fold_length(op)
        if folds.is_sum(op.kind, op.function, op.dtype, op.operands[1]):
            fold_length = unsafe_add(fold_length, 1)
    return types.Summary(
        width=nodes.get_width(op.dtype),
        elements=nodes.get_elements(op),
        fold_length=fold_length,
    )


@internal
@view
def _prepare(
    referee: IReferee,
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    side: uint256,
    encoding: Bytes[types.MAX_NODE_BYTES],
    op: nodes.Operator,
    before: bytes32,
    before_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
) -> types.Context:
    # What both sides agree on, but for the accumulator.
    digest: bytes32 = nodes.hash_encoding(encoding)
    ground: types.Ground = staticcall referee.prepare_leaf(pair, position, facts, side, digest)
    context: types.Context = ground.context
    context.before = before
    context.has_before = operands.is_before(ground.before, before, before_proof)
    if nodes.has_origin(op, nodes.FROM_BATCH):
        context.data_top = (staticcall referee.jobs(pair.job_id)).data_top
    return context


@internal
@view
def _sum(
    context: types.Context,
    low_bits: bytes32[3],
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    op: nodes.Operator,
    head: uint256,
    size: uint256,
) -> bytes32[3]:
    # The sum after one step of its fold, or finished, given so many bytes of evidence.
    variables: int256[nodes.MAX_VARIABLES] = operands.get_variables(op, context)
    cursor: uint256 = operands.find_evidence(head, size)
    end: uint256 = unsafe_add(cursor, size)
    known: operands.Path = empty(operands.Path)
    total: uint256[3] = empty(uint256[3])
    value: uint256 = 0
    if context.position == 0:
        value, known, cursor = self._open(context, padded, op.operands[0], variables, known, cursor, end)
        total = sums.begin(value)
    else:
        total = self._load(low_bits)
    if context.position == nodes.get_fold_length(op):
        operands.require(cursor == end)
        return self._write(sums.finish(total))
    factor: uint256 = sums.ONE
    if op.kind == nodes.SCATTER:
        for place: uint256 in range(2, op.operand_count, bound=types.MAX_OPERANDS):
            operand: uint256 = op.operands[place]
            value, known, cursor = self._open(context, padded, operand, variables, known, cursor, end)
            target: uint256 = nodes.get_target(padded, op, unsafe_sub(place, 2))
            if nodes.get_signed(nodes.get_dtype(operand), value) != variables[target]:
                operands.require(cursor == end)
                return self._store(total)
    value, known, cursor = self._open(context, padded, op.operands[1], variables, known, cursor, end)
    if op.kind == nodes.CONTRACT:
        factor, known, cursor = self._open(
            context, padded, op.operands[2], variables, known, cursor, end
        )
    operands.require(cursor == end)
    return self._store(sums.add_product(total, value, factor))


@internal
@view
def _open(
    context: types.Context,
    padded: Bytes[nodes.MAX_PADDED_BYTES],
    operand: uint256,
    variables: int256[nodes.MAX_VARIABLES],
    known: operands.Path,
    start: uint256,
    end: uint256,
) -> (uint256, operands.Path, uint256):
    # What an operand reads, by the evidence that begins there; what may be met next, and where.
    value: uint256 = nodes.get_value(operand)
    if nodes.get_origin(operand) == nodes.IMMEDIATE:
        return value, known, start
    is_inside: bool = False
    index: uint256 = 0
    is_inside, index = nodes.locate(padded, operand, variables)
    if not is_inside:
        return value, known, start
    root: bytes32 = empty(bytes32)
    cursor: uint256 = 0
    value, root, cursor = operands.open_element(operand, index, start, end)
    met: operands.Path = empty(operands.Path)
    met, cursor = operands.agree(context, operand, root, known, cursor, end)
    return value, met, cursor


@internal
@pure
def _hash(bits: bytes32[3]) -> bytes32:
    return keccak256(abi_encode(bits))


@internal
@pure
def _load(bits: bytes32[3]) -> uint256[3]:
    # The words of an accumulator as numbers.
    return [self._flip(bits[0]), self._flip(bits[1]), self._flip(bits[2])]


@internal
@pure
def _store(total: uint256[3]) -> bytes32[3]:
    return [
        convert(words.reverse(total[0]), bytes32),
        convert(words.reverse(total[1]), bytes32),
        convert(words.reverse(total[2]), bytes32),
    ]


@internal
@pure
def _read(bits: bytes32[3], width: uint256) -> uint256:
    # The element of so many bytes with which an accumulator begins.
    # A width is at most 8.
    modulus: uint256 = 1 << (width << 3)
    return self._flip(bits[0]) & unsafe_sub(modulus, 1)


@internal
@pure
def _write(element: uint256) -> bytes32[3]:
    return [convert(words.reverse(element), bytes32), empty(bytes32), empty(bytes32)]


@internal
@pure
def _flip(word: bytes32) -> uint256:
    return words.reverse(convert(word, uint256))
