"""The evidence for the bounded verifier, and its ruling on a disputed operator.

Everything that a player hands over is proven against the roots on the chain before it is used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from moot.contracts.model.descent import get_before
from moot.contracts.model.leaf import Context, Place, locate_operand
from moot.contracts.model.types import Facts, Terms
from moot.contracts.model.verdicts import get_context
from moot.contracts.reasons import Outcome
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.table import DEFAULT as DEFAULT_BACKEND
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, commit_tensor, compute_tensor_root, hash_tensor
from moot.offchain.commitments.tree import Digest, climb, get_height, is_member
from moot.offchain.datastore.objects import decode_header
from moot.offchain.disputes.play.openings import prove_before, prove_root
from moot.offchain.disputes.referee.board import Board, get_place
from moot.offchain.errors import CommitmentError, ProgramError, UnprovenEvidence
from moot.offchain.programs.cost import get_elements
from moot.offchain.programs.decoding import decode_layout, decode_node
from moot.offchain.programs.encoding import encode_layout
from moot.offchain.programs.graph import Node, Operand, Origin
from moot.offchain.programs.roots import hash_layout
from moot.offchain.programs.rounding.roots import LogTree, climb_log, get_slot_operand
from moot.offchain.providers.testimony import Testimony
from moot.offchain.verifier.bounds import DEFAULT, Bound
from moot.offchain.verifier.questions import Question
from moot.offchain.verifier.verifier import rule

if TYPE_CHECKING:
    from moot.offchain.disputes.play.game import Game


@dataclass(frozen=True, slots=True)
class ProvenTensor:
    """A tensor that the operator reads.

    Attributes:
        header: its type and shape.
        top: the node over its chunks, so that the root proves the header.
        proof: the proof of the root in the tree of its origin.
    """

    header: bytes
    top: Digest
    proof: tuple[Digest, ...]

    @property
    def root(self) -> Digest:
        """The tensor's root."""
        return hash_tensor(self.header, self.top)


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """The entries of an operator, proven against the root of its step's log among the data.

    Attributes:
        entries: their encoding.
        proof: their proof in the log.
        slot_proof: the proof of the log's root, as the tensor of a batch's slot.
    """

    entries: bytes
    proof: tuple[Digest, ...]
    slot_proof: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All about a disputed operator but the tensors that it reads, proven against one side's trees.

    What is proven is so to the last byte: there is no second evidence that is.

    Attributes:
        side: whose trees.
        encoding: the operator.
        program_proof: its proof in the program.
        layout: the program's layout, whose digest binds the arithmetic.
        before: the state before the step.
        before_proof: its proof in the side's history, or interval.
        shown: what the operator reads (None for constants).
        log: the operator's entries in the step's rounding log, if the arithmetic has logs.
    """

    side: int
    encoding: bytes
    program_proof: tuple[Digest, ...]
    layout: bytes
    before: Digest
    before_proof: tuple[Digest, ...]
    shown: tuple[ProvenTensor | None, ...]
    log: LogEvidence | None = None


def collect(run: Testimony, place: Facts, side: int) -> tuple[Evidence, Sequence[Array | None]]:
    """Return a player's evidence about the disputed operator, and what the operator reads."""
    commitment, program = run.task.commitment, run.task.program
    before, before_proof = prove_before(run, place)
    operands = run.operands(place.step, place.operator)
    pairs = zip(program.nodes[place.operator].operands, operands, strict=True)
    evidence = Evidence(
        side=side,
        encoding=commitment.encodings[place.operator],
        program_proof=tuple(commitment.tree.proof(place.operator)),
        layout=encode_layout(program),
        before=before,
        before_proof=before_proof,
        shown=tuple(_show(run, place, operand, array) for operand, array in pairs),
        log=_collect_log(run, place),
    )
    return evidence, operands


def _show(
    run: Testimony, place: Facts, operand: Operand, array: Array | None
) -> ProvenTensor | None:
    if array is None:
        return None
    made = commit_tensor(array)
    return ProvenTensor(made.header, made.top, prove_root(run, place.step, operand))


def _collect_log(run: Testimony, place: Facts) -> LogEvidence | None:
    task = run.task
    if task.logs is None:
        return None
    tree = LogTree(task.logs[place.step], len(task.program.nodes))
    slot = get_slot_operand(len(task.program.batch))
    return LogEvidence(*tree.open(place.operator), prove_root(run, place.step, slot))


class Proven(NamedTuple):
    """What evidence has proven.

    Attributes:
        node: the operator.
        arithmetic: the program's.
        entries: the encoding of the operator's entries in the step's log, if there are logs.
    """

    node: Node
    arithmetic: Arithmetic
    entries: bytes


def check(evidence: Evidence, terms: Terms, place: Facts, claim: Digest) -> Proven:
    """Return what is disputed, once all but the tensors is proven against the chain's roots.

    Args:
        evidence: what has been handed over.
        terms: the job's.
        place: what the match has found out.
        claim: the top of the history of the side whose trees are used.

    Raises:
        UnprovenEvidence: something that was handed over is not what was agreed.
    """
    leaf = keccak256(bytes([Tag.OPERATOR]) + evidence.encoding)
    where = (place.operator, terms.operators, evidence.program_proof)
    if not is_member(Tag.PROGRAM_NODE, terms.program_top, leaf, *where):
        raise UnprovenEvidence("the operator")
    tag, top, index, count = get_before(place, terms, evidence.side, claim)
    if not is_member(tag, top, evidence.before, index, count, evidence.before_proof):
        raise UnprovenEvidence("the state")
    arithmetic, entries = get_arithmetic(evidence.layout, terms), b""
    try:
        node = decode_node(evidence.encoding, arithmetic)
    except ProgramError:
        raise UnprovenEvidence("the operator") from None
    context = get_context(terms, place, evidence.side, evidence.before)
    if len(evidence.shown) != len(node.operands):
        raise UnprovenEvidence("the list of operands")
    for operand, shown in zip(node.operands, evidence.shown, strict=True):
        _check_operand(context, place, operand, shown)
    if arithmetic == LOGGED:
        entries = check_log(evidence.log, terms, place)
    elif evidence.log is not None:
        raise UnprovenEvidence("the log")
    return Proven(node, arithmetic, entries)


def _check_operand(
    context: Context, place: Facts, operand: Operand, shown: ProvenTensor | None
) -> None:
    """Refuse what is not what both sides have agreed that the operand reads.

    They have agreed on what stands before the operator in the trace, and on nothing behind it.
    """
    if operand.origin is Origin.IMMEDIATE:
        is_right = shown is None
    elif shown is None or (operand.origin is Origin.NODE and operand.reference >= place.operator):
        is_right = False
    else:
        is_right = _fits(operand, shown.header) and _is_agreed(
            locate_operand(context, operand), shown.root, shown.proof
        )
    if not is_right:
        raise UnprovenEvidence("an operand")


def _fits(operand: Operand, header: bytes) -> bool:
    """Whether a tensor of this header is one that an operand can read."""
    try:
        found = decode_header(header)
    except CommitmentError:
        return False
    return found.dtype is operand.dtype and prod(found.shape) == get_elements(operand)


def get_arithmetic(layout: bytes, terms: Terms) -> Arithmetic:
    """Return the arithmetic of a job's program.

    A layout is read to its end: otherwise an arithmetic's name could pass for a piece of it.

    Raises:
        UnprovenEvidence: this is not the layout of the job's program.
    """
    try:
        state, batch = decode_layout(layout)
    except ProgramError:
        raise UnprovenEvidence("the layout") from None
    is_counted = (len(state), len(batch)) == (terms.state_slots, terms.batch_slots)
    for arithmetic in ARITHMETICS.values():
        if is_counted and hash_layout(layout, arithmetic) == terms.layout:
            return arithmetic
    raise UnprovenEvidence("the layout")


def check_log(log: LogEvidence | None, terms: Terms, place: Facts) -> bytes:
    """Return the encoding of an operator's entries, proven against the data of the job.

    Raises:
        UnprovenEvidence: something that was handed over is not what was agreed.
    """
    if log is None:
        raise UnprovenEvidence("the log")
    slot = get_slot_operand(terms.batch_slots)
    context = get_context(terms, place, 0, bytes(32))
    try:
        content = climb_log(log.entries, place.operator, terms.operators, log.proof)
    except CommitmentError:
        raise UnprovenEvidence("the log") from None
    root = compute_tensor_root(content)
    if not _is_agreed(locate_operand(context, slot), root, log.slot_proof):
        raise UnprovenEvidence("the log")
    return log.entries


def _is_agreed(tree: Place, root: Digest, proof: Sequence[Digest]) -> bool:
    """Whether a tensor with this root lies there in the tree that is agreed."""
    try:
        top = climb(tree.tag, root, tree.index, tree.count, 0, get_height(tree.count), proof)
    except CommitmentError:
        return False
    return tree.top is not None and tree.finish(top) == tree.top


def judge(
    evidence: Evidence,
    operands: Sequence[Array | None],
    terms: Terms,
    place: Facts,
    claim: Digest,
    outputs: tuple[Digest, Digest],
    bound: Bound = DEFAULT,
    backend: str = DEFAULT_BACKEND,
) -> Outcome:
    """Return the side whose output is the one that the bounded verifier computes, if any.

    Args:
        evidence: what has been handed over.
        operands: what the operator reads, as was handed over, too (None for constants).
        terms: the job's.
        place: what the match has found out.
        claim: the top of the history of the side whose trees are used.
        outputs: the tensor roots that the two sides claim.
        bound: the most that it may cost.
        backend: what computes it.

    Raises:
        UnprovenEvidence: something that was handed over is not what was agreed.
        VerifierError: the operator could not be recomputed.
    """
    proven = check(evidence, terms, place, claim)
    question = Question(
        arithmetic=proven.arithmetic,
        encoding=evidence.encoding,
        step=place.step,
        operands=tuple(operands),
        operand_roots=tuple(None if it is None else it.root for it in evidence.shown),
        claimed_root=outputs[evidence.side],
        entries=proven.entries,
    )
    right = rule(question, bound, backend).root
    sides = (Outcome(side) for side, output in enumerate(outputs) if output == right)
    return next(sides, Outcome.NEITHER)


def rule_by(
    terms: Terms,
    board: Board,
    shown: Iterable[tuple[Testimony, int, Digest]],
    backend: str = DEFAULT_BACKEND,
) -> Outcome:
    """Rule on a match from the first evidence that is proven, whoever brings it.

    All that is proven leads to one ruling. Neither wins where nothing is: two members that agree
    on operands which nobody else has must not keep the verifier from ruling.

    Args:
        terms: the job's.
        board: the match.
        shown: runs, each with the side against whose trees it is to be proven, and that side's
            claim.
        backend: what computes the operator.

    Raises:
        VerifierError: what was shown is proven, and the verifier could not recompute it.
    """
    place = get_place(board)
    for run, side, claim in shown:
        evidence, operands = collect(run, place, side)
        try:
            outputs = board.position.nodes
            return judge(evidence, operands, terms, place, claim, outputs, backend=backend)
        except UnprovenEvidence:
            continue
    return Outcome.NEITHER


def rule_for(terms: Terms, board: Board, game: "Game") -> Outcome:
    """Rule on a match from the evidence of either side (`rule_by`)."""
    found = map(game.find_player, (board.pair.first, board.pair.second))
    shown = [
        (player.run, side, player.run.history.top)
        for side, player in enumerate(found)
        if player is not None and player.run.behaviour.plays
    ]
    return rule_by(terms, board, shown)
