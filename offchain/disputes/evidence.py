"""What the bounded verifier is shown, and how it comes to rule on a disputed operator.

Everything that a player hands over is proven against the roots on the chain before it is used.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from contracts.model.leaf import is_agreed
from contracts.model.moves import get_context
from contracts.model.types import ZERO, Job, Match
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import Array, compute_tensor_root
from offchain.commitments.tree import Digest, is_member
from offchain.disputes.board import Board, prove_in_trace
from offchain.disputes.openings import TraceProof, prove_root
from offchain.errors import CommitmentError, VerifierError
from offchain.programs.encoding import decode_node
from offchain.programs.graph import Node, Origin
from offchain.providers.run import Run
from offchain.verifier.bounds import DEFAULT, Bound
from offchain.verifier.questions import Question
from offchain.verifier.verifier import Ruling, rule, rule_scalar

if TYPE_CHECKING:
    from offchain.disputes.game import Game


@dataclass(frozen=True, slots=True)
class Evidence:
    """An operator with the tensors that it reads, and their proofs (None for constants)."""

    encoding: bytes
    program_proof: tuple[Digest, ...]
    operands: tuple[Array | None, ...]
    proofs: tuple[tuple[Digest, ...] | None, ...]
    claimed: Array | None


def collect(run: Run, match: Match, prove: TraceProof, claimed: Array | None) -> Evidence:
    """Return what a player shows of the disputed operator."""
    commitment = run.task.commitment
    node = run.task.program.nodes[match.operator]
    proofs = tuple(
        None
        if operand.origin is Origin.IMMEDIATE
        else tuple(prove_root(run, match.step, operand, prove))
        for operand in node.operands
    )
    return Evidence(
        encoding=commitment.encodings[match.operator],
        program_proof=tuple(commitment.tree.proof(match.operator)),
        operands=tuple(run.operands(match.step, match.operator)),
        proofs=proofs,
        claimed=claimed,
    )


def check(evidence: Evidence, job: Job, match: Match) -> tuple[Node, tuple[Digest | None, ...]]:
    """Return the operator and the roots of its operands, all proven against the chain's roots.

    Raises:
        VerifierError: something that was handed over is not what was agreed.
    """
    terms = job.terms
    leaf = keccak256(bytes([Tag.OPERATOR]) + evidence.encoding)
    place = (match.operator, terms.operators, evidence.program_proof)
    if not is_member(Tag.PROGRAM_NODE, terms.program_top, leaf, *place):
        raise VerifierError("the operator that was handed over is not the program's; ask again")
    node = decode_node(evidence.encoding)
    context = get_context(terms, match)
    roots: list[Digest | None] = []
    for operand, array, proof in zip(
        node.operands, evidence.operands, evidence.proofs, strict=True
    ):
        if array is None or proof is None:
            roots.append(None)
            continue
        root = compute_tensor_root(array)
        try:
            agreed = is_agreed(context, operand, root, proof)
        except CommitmentError:
            agreed = False
        if not agreed:
            raise VerifierError("an operand that was handed over is not the agreed one; ask again")
        roots.append(root)
    return node, tuple(roots)


def judge(evidence: Evidence, job: Job, match: Match, bound: Bound = DEFAULT) -> Ruling:
    """Return the bounded verifier's ruling on the defender's output, or on its one scalar."""
    _, roots = check(evidence, job, match)
    if match.encoding_digest != ZERO:
        return rule_scalar(
            evidence.encoding,
            match.step,
            match.element,
            match.low,
            match.low_bits,
            match.high_bits,
            evidence.operands,
            roots,
            bound,
        )
    question = Question(
        encoding=evidence.encoding,
        step=match.step,
        operands=evidence.operands,
        operand_roots=roots,
        claimed_root=match.node,
        claimed=evidence.claimed,
    )
    return rule(question, bound)


def rule_for(job: Job, match: Match, board: Board, game: "Game") -> bool:
    """Rule on a match from the evidence of either side, whichever is proven."""
    for seat in (match.challenger, match.defender):
        run = game.players[seat].run
        if not run.behaviour.plays:
            continue
        trace = run.trace(match.step)
        if seat == match.defender:
            evidence = collect(run, match, trace.proof, None)
        else:
            evidence = collect(run, match, partial(prove_in_trace, board, trace), None)
        try:
            return judge(evidence, job, match).upheld
        except VerifierError:
            continue
    raise VerifierError("neither side has shown the agreed operands; the clock will decide")
