"""The evidence for the bounded verifier, and its ruling on a disputed operator.

Everything that a player hands over is proven against the roots on the chain before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.model.descent import get_before
from contracts.model.leaf import Place, locate_operand
from contracts.model.types import Facts, Terms
from contracts.model.verdicts import get_context
from contracts.reasons import Outcome
from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.logged import LOGGED
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import Array, compute_tensor_root
from offchain.commitments.tree import Digest, climb, get_height, is_member
from offchain.disputes.board import Board, get_place
from offchain.disputes.openings import prove_before, prove_root
from offchain.errors import CommitmentError, UnprovenEvidence
from offchain.programs.decoding import decode_node
from offchain.programs.graph import Origin
from offchain.programs.rounding.roots import LogTree, climb_log, get_slot_operand
from offchain.providers.testimony import Testimony
from offchain.verifier.bounds import DEFAULT, Bound
from offchain.verifier.questions import Question
from offchain.verifier.verifier import rule

if TYPE_CHECKING:
    from offchain.disputes.game import Game


@dataclass(frozen=True, slots=True)
class Evidence:
    """An operator with the tensors that it reads, proven against the trees of one side.

    Attributes:
        side: whose trees.
        encoding: the operator.
        program_proof: its proof in the program.
        before: the state before the step.
        before_proof: its proof in the side's history, or interval.
        operands: what the operator reads (None for constants).
        proofs: their proofs in the trees of their origins (None for constants).
        log: the operator's entries in the step's rounding log, if the arithmetic has logs.
    """

    side: int
    encoding: bytes
    program_proof: tuple[Digest, ...]
    before: Digest
    before_proof: tuple[Digest, ...]
    operands: tuple[Array | None, ...]
    proofs: tuple[tuple[Digest, ...] | None, ...]
    log: "LogEvidence | None" = None


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


def collect(run: Testimony, place: Facts, side: int) -> Evidence:
    """Return a player's evidence about the disputed operator."""
    commitment = run.task.commitment
    node = run.task.program.nodes[place.operator]
    before, before_proof = prove_before(run, place)
    proofs = tuple(
        None if operand.origin is Origin.IMMEDIATE else prove_root(run, place.step, operand)
        for operand in node.operands
    )
    return Evidence(
        side=side,
        encoding=commitment.encodings[place.operator],
        program_proof=tuple(commitment.tree.proof(place.operator)),
        before=before,
        before_proof=before_proof,
        operands=tuple(run.operands(place.step, place.operator)),
        proofs=proofs,
        log=_collect_log(run, place),
    )


def _collect_log(run: Testimony, place: Facts) -> LogEvidence | None:
    task = run.task
    if task.logs is None:
        return None
    tree = LogTree(task.logs[place.step], len(task.program.nodes))
    slot = get_slot_operand(len(task.program.batch))
    return LogEvidence(*tree.open(place.operator), prove_root(run, place.step, slot))


def check(
    evidence: Evidence, terms: Terms, place: Facts, claim: Digest
) -> tuple[Digest | None, ...]:
    """Return the roots of the operands, all proven against the chain's roots.

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
    context = get_context(terms, place, evidence.side, evidence.before)
    roots: list[Digest | None] = []
    operands = decode_node(evidence.encoding).operands
    for operand, array, proof in zip(operands, evidence.operands, evidence.proofs, strict=True):
        if array is None or proof is None:
            roots.append(None)
            continue
        root = compute_tensor_root(array)
        if not _is_agreed(locate_operand(context, operand), root, proof):
            raise UnprovenEvidence("an operand")
        roots.append(root)
    return tuple(roots)


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
    arithmetic: Arithmetic,
    evidence: Evidence,
    terms: Terms,
    place: Facts,
    claim: Digest,
    outputs: tuple[Digest, Digest],
    bound: Bound = DEFAULT,
) -> Outcome:
    """Return the side whose output is the one that the bounded verifier computes, if any."""
    question = Question(
        arithmetic=arithmetic,
        encoding=evidence.encoding,
        step=place.step,
        operands=evidence.operands,
        operand_roots=check(evidence, terms, place, claim),
        claimed_root=outputs[evidence.side],
        entries=check_log(evidence.log, terms, place) if arithmetic == LOGGED else b"",
    )
    right = rule(question, bound).root
    sides = (Outcome(side) for side, output in enumerate(outputs) if output == right)
    return next(sides, Outcome.NEITHER)


def rule_for(terms: Terms, board: Board, game: "Game") -> Outcome:
    """Rule on a match from the evidence of either side, whichever is proven.

    Neither wins where neither has shown what both have agreed on: two members that agree on
    operands which nobody else has must not keep the verifier from ruling.

    Raises:
        VerifierError: what was shown is proven, and the verifier could not recompute it.
    """
    place = get_place(board)
    for side, address in enumerate((board.pair.first, board.pair.second)):
        player = game.find_player(address)
        if player is None or not player.run.behaviour.plays:
            continue
        evidence = collect(player.run, place, side)
        claim = player.run.history.top
        try:
            return judge(
                game.referee.arithmetic, evidence, terms, place, claim, board.position.nodes
            )
        except UnprovenEvidence:
            continue
    return Outcome.NEITHER
