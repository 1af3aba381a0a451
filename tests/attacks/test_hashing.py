from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.descent import BOTH
from moot.contracts.model.types import Dive, Position, Store, Terms
from moot.contracts.model.words import hash_commitment, hash_job, hash_position
from moot.contracts.reasons import Phase, Reason
from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import encode_header
from moot.offchain.commitments.tree import Digest, Tree, hash_node
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, REWARD_WEI, SALT, Court, FalseFlag, open_court
from tests.attacks.elements import F32, ROWS, make_runs, make_task
from tests.attacks.twin import Twin
from tests.quick import every

NEGATED = Node(Kind.MAP, Function.NEG, F32, (2,), (Operand(Origin.STATE, F32, 0, 0, ROWS),))
"""Reads the state before the step itself."""
BITS = (0xC0490FDB, 0x40490FDB)
"""What it makes of pi, and what it does not."""


def swap(values: Sequence[Any], place: int, value: object) -> tuple[Any, ...]:
    """Return a tuple with something else in one place."""
    place %= len(values)
    return (*values[:place], value, *values[place + 1 :])


def bend_proof(proof: tuple[Digest, ...]) -> Iterator[tuple[Digest, ...]]:
    """Yield proofs that are a little longer, shorter or other ones than a proof."""
    for bent in (proof[:-1], proof[1:], (*proof, *proof[:1]), (*proof, bytes(32)), (), proof[::-1]):
        if bent != proof:
            yield bent


def bend_dive(dive: Dive) -> Iterator[Dive]:
    """Yield dives of which one list has another length or order, or of which a word is another."""
    for siblings in bend_proof(dive.siblings):
        yield replace(dive, siblings=siblings)
    for nodes in bend_proof(dive.nodes):
        yield replace(dive, nodes=nodes)
    for child in (dive.child + 1, dive.child + 16, 2**64, 2**256 - 1):
        yield replace(dive, child=child)
    yield replace(dive, node=hash_node(Tag.TRACE_NODE, dive.node, dive.node))
    if dive.siblings:
        yield replace(dive, siblings=swap(dive.siblings, 0, b"\7" * 32))
    if dive.nodes:
        yield replace(dive, nodes=swap(dive.nodes, 0, b"\7" * 32))


def is_read(name: str, at: Position, dive: Dive, bent: Dive) -> bool:
    """Whether a call reads what is bent.

    Who only opens the top of a small tree picks nothing, and who shows a chunk opens nothing.
    """
    if bent.nodes != dive.nodes:
        return name != "reach_chunk"
    return at.entered == BOTH or at.level > at.span


REFUSALS = {
    Reason.BAD_PROOF,
    Reason.BAD_OPENING,
    Reason.SAME_NODE,
    Reason.OUT_OF_RANGE,
    Reason.NO_REASON,
}


def test_h2_every_proof_and_opening_has_one_form(referee: Twin) -> None:
    """In all calls one hash more or less, in another order or another one, or none, is refused."""
    court = open_court(referee, Lie(6, operator=9), LIE, clock_blocks=5000)
    pair, forms = court.begin(), 0
    while (board := court.look(pair)) is not None:
        move = court.find(pair)
        for place, argument in enumerate(move.args):
            bent: list[Any] = []
            if isinstance(argument, Dive):
                bent = [
                    d
                    for d in bend_dive(argument)
                    if is_read(move.name, board.position, argument, d)
                ]
            elif isinstance(argument, tuple) and argument and isinstance(argument[0], bytes):
                bent = list(bend_proof(argument))
            for other in bent:
                assert court.refuse(move, args=swap(move.args, place, other)) in REFUSALS
                forms += 1
        court.make(move)
    assert forms > 100


def test_h1_inner_node_does_not_pass_for_a_leaf(referee: Twin) -> None:
    """A node shown as one of its own descendants, with a shorter proof, is refused."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.INTERVAL, entered=1)
    move = court.find(pair)
    tree = Tree(Tag.INTERVAL_NODE, court.look(pair).nodes)  # type: ignore[union-attr]
    own = court.runs[court.members.index(move.sender)].interval(4)
    for level in (1, 2):
        dive = Dive(0, tree.node(level, 0), tuple(tree.proof(0, level)), (own.node(level, 0),))
        assert court.refuse(move, args=swap(move.args, -1, dive)) in REFUSALS


def test_h1_parent_state_does_not_pass_for_the_state_before(referee: Twin) -> None:
    """The state before must be a leaf: an inner node of the history with its proof is refused."""
    court, pair = begin_element(referee, steps=5)
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    history = court.runs[court.members.index(move.sender)].history
    assert move.args[5:7] == (history.node(0, 3), tuple(history.proof(3)))
    for level in (1, 2):
        inner = (history.node(level, 3 >> level), tuple(history.proof(3 >> level, level)))
        args = (*move.args[:5], *inner, move.args[7])
        assert court.refuse(move, args=args) == Reason.BAD_OPERAND
    court.make(move)


def begin_element(referee: Twin, steps: int = 1) -> tuple[Court, Any]:
    """Begin a match about an operator that reads the state."""
    task = make_task(NEGATED, steps)
    court = Court(referee, task, make_runs(task, NEGATED, BITS))
    return court, court.begin()


def test_h1_two_hashes_do_not_pass_for_a_chunk(referee: Twin) -> None:
    """An inner node of a tensor is not the hash of a chunk that holds its two children."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.CHUNK)
    move = court.find(pair)
    one, other = b"\1" * 32, b"\2" * 32
    for chunk in (one + other, bytes([Tag.TENSOR_NODE]) + one + other, b"", bytes(256), bytes(257)):
        refused = court.refuse(move, args=swap(move.args, 3, chunk))
        assert refused in {Reason.BAD_CHUNK, Reason.NO_REASON}


def test_h2_odd_nodes_are_promoted_not_doubled(referee: Twin) -> None:
    """A last node without a sibling is not hashed with itself, nor with zeros."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.make(court.find(pair))
    answer = court.find(pair)
    dive = answer.args[-1]
    leaves = court.look(pair).nodes  # type: ignore[union-attr]
    assert len(leaves) == 5
    for padding in (leaves[-1], bytes(32)):
        padded = replace(dive, nodes=(*leaves, padding))
        assert court.refuse(answer, args=swap(answer.args, -1, padded)) in REFUSALS


def bend_evidence(evidence: bytes) -> Iterator[bytes]:
    """Yield what is not quite the evidence of two operands: cut, longer, turned, or bent."""
    half = len(evidence) // 2
    yield from (b"", evidence[:half], evidence[half:], evidence[half:] + evidence[:half])
    yield from (evidence[:-1], evidence[:-32], evidence[1:], evidence[32:])
    yield from (evidence + b"\0", evidence + bytes(32), evidence + evidence[:half])
    for place in (0, 1, 5, 9, 18, 100, 18 + 256, 18 + 256 + 32, len(evidence) - 1):
        bent = evidence[place] ^ 1
        yield evidence[:place] + bytes([bent]) + evidence[place + 1 :]
        yield evidence[:place] + evidence[place + 32 :]
        yield evidence[:place] + bytes(32) + evidence[place:]


def test_h2_operands_have_one_form(referee: Twin) -> None:
    """At the leaf no proof, header or chunk but an operand's own is taken, and none is left out."""
    court = open_court(referee, LIE, HONEST, clock_blocks=5000)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    evidence = move.args[7]
    for other in bend_evidence(evidence):
        assert other != evidence
        assert court.refuse(move, args=swap(move.args, 7, other)) == Reason.BAD_OPERAND
    court.make(move)


def test_h3_moves_of_one_job_are_stale_in_another(referee: Twin) -> None:
    """Two jobs with the same claims and members at the same place have different positions."""
    courts = [open_court(referee, LIE, HONEST) for _ in range(2)]
    for court in courts:
        for seat in range(2):
            court.commit(seat)
    referee.mine_to(courts[1].job.commit_deadline + 1)
    for court in courts:
        for seat in range(2):
            court.reveal(seat)
    referee.mine_to(courts[1].job.reveal_deadline + 1)
    pairs = [court.start() for court in courts]
    for court, pair in zip(courts, pairs, strict=True):
        court.play_to(pair, Phase.TRACE)
    move = courts[0].find(pairs[0])
    args = (pairs[1], *move.args[1:])
    assert courts[0].refuse(move, args=args) == Reason.STALE


def test_h3_moves_at_one_referee_are_stale_at_another(referee: Twin) -> None:
    """Two referees with the same job, members and match have different positions and commitments.

    The match is stored under the same number, and its clocks differ by the blocks between.
    """
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    move = court.find(pair)
    contract = deploy_referee(referee.chain, referee.chain.accounts[9])
    other = Twin(referee.chain, contract)
    twin = open_court(other, LIE, HONEST)
    assert twin.begin() == pair
    assert other.refused(move.name, move.sender, *move.args) == Reason.STALE
    top = court.get_top(0)
    digests = {r.commitment(0, court.members[0], top, SALT) for r in (referee, other)}
    assert len(digests) == 2


def test_h3_commitments_on_one_chain_show_nothing_on_another(referee: Twin) -> None:
    """A commitment names the chain: the same referee on a fork with another id has others.

    A position does not need to: it says nothing but where a match stands on the chain that has it.
    """
    court = open_court(referee, HONEST)
    member, top = court.members[0], court.get_top(0)
    fork = Store(referee.store.chain_id + 1, referee.store.address)
    digest = hash_commitment(fork, court.job_id, member, top, SALT)
    bond = court.terms.bond_wei
    referee.call("commit", member, court.job_id, digest, court.named, value_wei=bond)
    referee.mine_to(court.job.commit_deadline + 1)
    assert referee.refused("reveal", member, court.job_id, top, SALT) == Reason.NOT_COMMITTED


def test_h3_commitment_of_one_job_shows_nothing_in_another(referee: Twin) -> None:
    """A commitment is bound to its job: the same digest can't be revealed in the next job."""
    courts = [open_court(referee, HONEST) for _ in range(2)]
    member, top = courts[0].members[0], courts[0].get_top(0)
    digest = referee.commitment(courts[0].job_id, member, top, SALT)
    for court in courts:
        bond = court.terms.bond_wei
        referee.call("commit", member, court.job_id, digest, court.named, value_wei=bond)
    referee.mine_to(courts[1].job.commit_deadline + 1)
    courts[0].reveal(0)
    refused = referee.refused("reveal", member, courts[1].job_id, top, SALT)
    assert refused == Reason.NOT_COMMITTED


def test_h4_every_preimage_has_fixed_widths_or_a_length(referee: Twin) -> None:
    """Two headers, one of which goes on where the other's chunks begin, are not the same tensor."""
    top = bytes(24) + (7).to_bytes(8, "big")
    short, long = encode_header(F32, (5,)), encode_header(F32, (5, 7))
    assert short != long[: len(short)]
    court, pair = begin_element(referee)
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    evidence, header = move.args[7], encode_header(F32, (2,))
    assert evidence.startswith(header)
    for other in (header[:1] + b"\2" + header[2:] + top[:8], header + top[:8], long, short):
        bent = other + evidence[len(header) :]
        assert court.refuse(move, args=swap(move.args, 7, bent)) == Reason.BAD_OPERAND
    court.make(move)


def test_h6_tree_shapes_are_integers(referee: Twin) -> None:
    """Around every power of two a history has the height that integers say, and can be disputed."""
    for checkpoints in (1, 2, 3, 4, 5, 8, 9, 16, 17, 2**20 - 1, 2**20 + 1, 2**32):
        court, pair = begin_element(referee, steps=checkpoints)
        assert court.at(pair).level == (checkpoints - 1).bit_length()
        court.play_to(pair, Phase.TRACE)


def leads_to_trace(at: Position) -> bool:
    """Whether the next move enters a trace, as the first or as the second."""
    if at.phase is Phase.TRACE:
        return at.entered == 1
    return at.phase is Phase.INTERVAL and at.entered == BOTH and at.level == at.span


def test_g5_reorganised_chain_cannot_retarget_a_move(referee: Twin) -> None:
    """A move that answers another's opening is refused where the chain has another opening."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    own = (pair.first, pair.second).index(court.members[1])
    court.play(pair, lambda at: at.mover == own and leads_to_trace(at))
    entering = court.find(pair)
    assert entering.name == "enter_claimed"
    with referee.branch():
        court.make(entering)
        answer = court.find(pair)
    # The chain is reorganised: this time the other side opens another trace.
    court.runs = [court.runs[0], FalseFlag(court.synthetic, Lie(6, operator=2))]
    court.make(court.find(pair))
    assert court.refuse(answer) == Reason.STALE
    other = court.find(pair)
    assert other.args[1:3] != answer.args[1:3]
    court.make(other)


def list_other_jobs(terms: Terms) -> Iterator[Terms]:
    """Yield legal terms, each with one field that is not as in these."""
    for one in fields(terms):
        value: Any = getattr(terms, one.name)
        if isinstance(value, bytes):
            value = hash_node(Tag.CLAIM, value, value)
        elif isinstance(value, str):
            value = f"0x{int(value, 16) ^ 1:040x}"
        else:
            value = type(value)(value ^ 1 if one.name == "leaf_mode" else value + 1)
        other: dict[str, Any] = {one.name: value}
        yield replace(terms, **other)


@pytest.mark.parametrize("late", every(4, [False, True]), ids=["commit", "join"])
def test_g5_reorganised_chain_cannot_retarget_a_bond(referee: Twin, *, late: bool) -> None:
    """Who joins a job joins no other of its number, whichever term, client or reward differs."""
    court = open_court(referee, HONEST)
    member, client, job_id = court.members[0], court.client, court.job_id + 1
    others = [(client, REWARD_WEI, terms) for terms in list_other_jobs(court.terms)]
    others += [(client, REWARD_WEI + 1, court.terms), (client, 0, court.terms)]
    others += [(referee.accounts[8], REWARD_WEI, court.terms)]
    for other, reward_wei, terms in others:
        with referee.branch():
            referee.call("open_job", other, terms, value_wei=reward_wei)
            job = referee.store.jobs[job_id]
            referee.mine_to((job.reveal_deadline if late else job.opened_block) + 1)
            join = ("join" if late else "commit", member, job_id, court.get_top(0))
            for named in (court.named, 0, hash_job(job) ^ 1, hash_job(job) >> 1):
                refused = referee.refused(*join, named, value_wei=terms.bond_wei)
                assert refused == Reason.OTHER_TERMS
            referee.call(*join, hash_job(job), value_wei=terms.bond_wei)


def test_v3_leaf_is_computed_by_the_operator_that_was_entered(referee: Twin) -> None:
    """No other operator of the program, and no other attribute, decides a leaf."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    own = move.args[4]
    others = [e for e in court.task.commitment.encodings if e != own]
    node = court.task.program.nodes[4]
    bent = [
        encode_node(replace(node, function=Function.ADD, kind=Kind.REDUCE)),
        encode_node(replace(node, fold_shape=(71,))),
        encode_node(replace(node, operands=(node.operands[0], *node.operands[:0:-1]))),
    ]
    for encoding in (*others, *bent, own + b"\0", own[:-1], b"", own[:2] + b"\2" + own[3:]):
        assert court.refuse(move, args=swap(move.args, 4, encoding)) == Reason.BAD_PROOF
    court.make(move)


def test_v3_entered_operator_is_the_disputed_one(referee: Twin) -> None:
    """The first to enter proves the operator in its place in the program, and in no other."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    move, program = court.await_call(pair, "enter_tensor"), court.task.commitment
    for index in range(len(program.encodings)):
        if program.encodings[index] != program.encodings[4]:
            place = (program.encodings[index], tuple(program.tree.proof(index)))
            args = (*move.args[:3], *place, *move.args[5:])
            assert court.refuse(move, args=args) == Reason.BAD_PROOF
    court.make(move)
    second = court.find(pair)
    assert second.args[4] == ()
    bent = replace(court.task.program.nodes[4], fold_shape=(71,))
    args = swap(second.args, 3, encode_node(bent))
    assert court.refuse(second, args=args) == Reason.BAD_PROOF


def test_h3_position_is_bound_to_its_match(referee: Twin) -> None:
    """Where two matches of one member stand alike, neither's position is the other's."""
    court = open_court(referee, LIE, HONEST, HONEST).assemble()
    pairs = court.start(0, 1), court.start(0, 2)
    at = [court.at(pair) for pair in pairs]
    alike = replace(at[1], deadline=at[0].deadline, nodes=at[0].nodes, mover=at[0].mover)
    assert isinstance(alike, Position)
    assert hash_position(pairs[0], alike) != hash_position(pairs[1], alike)
    move = court.find(pairs[0])
    assert court.refuse(move, args=(pairs[1], *move.args[1:])) == Reason.STALE
