from contracts.deployment import deploy_referee
from contracts.model.checks import compute_position
from contracts.model.referee import compute_commitment
from contracts.model.types import Store
from contracts.reasons import Phase, Reason
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Tree, hash_node
from tests.lockstep.claims import cheating
from tests.lockstep.game import SALT, Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds


def start(referee: Lockstep) -> Game:
    """Begin a match between a liar, who defends, and an honest challenger."""
    claims = [cheating(kinds(4, 2), 1, 6), honest_kinds(4, 2)]
    return Game(referee, kinds(4, 2), claims).assemble().start()


def test_h1_inner_node_does_not_pass_for_a_leaf(referee: Lockstep) -> None:
    """A node shown as one of its own descendants, with the shorter proof, is refused."""
    game = start(referee).play_to(Phase.TRACE, opened=True)
    match, shown = game.match, game.shown
    level = Tree(Tag.TRACE_NODE, shown)
    inner, proof = level.node(1, 0), level.proof(0, low=1)
    for siblings in (proof, [proof[0], *proof]):
        position = referee.position(game.job_id)
        args = (game.job_id, position, 0, inner, siblings)
        assert referee.refused("pick", game.members[1], *args) == Reason.BAD_PROOF
    assert game.match == match


def test_h1_parent_state_does_not_pass_for_the_state_before(referee: Lockstep) -> None:
    """The agreed state must be a leaf: an inner node of the history with its proof is refused."""
    game = start(referee).play_to(Phase.ENTER_INTERVAL)
    move = game.next_move()
    history = game.claims[0].history
    inner, proof = history.node(1, 0), history.proof(0, low=1)
    args = (*move.args[:2], inner, proof, *move.args[4:])
    assert referee.refused(move.name, move.sender, *args) == Reason.BAD_PROOF


def test_h1_two_hashes_do_not_pass_for_a_chunk(referee: Lockstep) -> None:
    """An inner node of a tensor is not the hash of a chunk that holds its two children."""
    game = Game(referee, kinds(), [cheating(kinds(), 0, 13, 66), honest_kinds()]).assemble()
    game.start().play_to(Phase.CHUNK)
    tree = Tree(Tag.TENSOR_NODE, [b"\1" * 32, b"\2" * 32])
    assert hash_node(Tag.TENSOR_NODE, b"\1" * 32, b"\2" * 32) == tree.top
    position = referee.position(game.job_id)
    for chunk in (b"\1" * 32 + b"\2" * 32, bytes([Tag.TENSOR_NODE]) + b"\1" * 32 + b"\2" * 32):
        refused = referee.refused("open_chunk", game.members[0], game.job_id, position, chunk)
        assert refused == Reason.BAD_CHUNK


def test_h2_every_proof_has_one_length(referee: Lockstep) -> None:
    """In all calls with proofs, one sibling more or less, or none, is refused."""
    game = start(referee)
    while game.is_playing:
        move = game.next_move()
        for place, argument in enumerate(move.args):
            if move.name == "leaf" or not isinstance(argument, list | tuple):
                continue
            proof = tuple(argument)
            for wrong in (proof[:-1], (*proof, *proof[:1]), (*proof, bytes(32)), ()):
                if wrong != proof:
                    args = (*move.args[:place], wrong, *move.args[place + 1 :])
                    refused = referee.refused(move.name, move.sender, *args)
                    assert refused in {Reason.BAD_PROOF, Reason.BAD_OPENING}
        game.make(move)


def test_h2_odd_nodes_are_promoted_not_doubled(referee: Lockstep) -> None:
    """A last node without a sibling is not hashed with itself, nor with zeros."""
    game = start(referee)
    leaves = game.shown = tuple(game.claims[0].history.children(2, 0))
    assert len(leaves) == 3
    for padding in (leaves[-1], bytes(32)):
        position = referee.position(game.job_id)
        padded = (*leaves, padding)
        refused = referee.refused("open", game.members[0], game.job_id, position, padded)
        assert refused == Reason.BAD_OPENING


def test_h3_moves_of_one_job_are_stale_in_another(referee: Lockstep) -> None:
    """Two jobs with the same claims at the same place have different positions."""
    games = [start(referee) for _ in range(2)]
    for game in games:
        game.play_to(Phase.TRACE)
    move = games[0].next_move()
    args = (games[1].job_id, *move.args[1:])
    assert referee.refused(move.name, move.sender, *args) == Reason.STALE


def test_h3_moves_at_one_referee_are_stale_at_another(referee: Lockstep) -> None:
    """Two referees with the same job, claims and match have different positions."""
    move = start(referee).play_to(Phase.TRACE).next_move()
    contract = deploy_referee(referee.chain, referee.chain.accounts[9])
    other = Lockstep(referee.chain, contract, {})
    game = start(other).play_to(Phase.TRACE)
    assert game.next_move().args[2] == move.args[2]
    assert other.refused(move.name, move.sender, *move.args) == Reason.STALE


def test_h3_moves_on_one_chain_are_stale_on_another(referee: Lockstep) -> None:
    """A position names the chain: the same referee on a fork with another id has others."""
    game = start(referee).play_to(Phase.FOLD)
    fork = Store(referee.store.chain_id + 1, referee.store.address)
    assert referee.contract.call("position", game.job_id) == referee.position(game.job_id)
    assert compute_position(fork, game.job_id, game.match) != referee.position(game.job_id)


def test_h3_commitment_of_one_job_shows_nothing_in_another(referee: Lockstep) -> None:
    """A commitment is bound to its job: the same digest cannot be revealed in the next job."""
    games = [Game(referee, kinds(), [honest_kinds()]) for _ in range(2)]
    member, bond_wei = games[0].members[0], games[0].job.terms.bond_wei
    top = honest_kinds().history.top
    digest = compute_commitment(referee.store, games[0].job_id, member, top, SALT)
    for game in games:
        referee.call("commit", member, game.job_id, digest, value_wei=bond_wei)
    referee.mine_to(games[1].job.commit_deadline + 1)
    referee.call("reveal", member, games[0].job_id, top, SALT)
    refused = referee.refused("reveal", member, games[1].job_id, top, SALT)
    assert refused == Reason.NOT_COMMITTED


def test_g5_reorganised_chain_cannot_retarget_a_move(referee: Lockstep) -> None:
    """A move that was made for one history of the chain is refused in another."""
    game = start(referee).play_to(Phase.TRACE, opened=True)
    shown = game.shown
    with referee.branch():
        game.make(game.next_move())
        answer = game.next_move()
        assert answer.name == "open"
    # The chain is reorganised: this time the challenger has picked another node.
    game.target, game.shown = (20, 0), shown
    game.make(game.next_move())
    assert referee.refused(answer.name, answer.sender, *answer.args) == Reason.STALE
    other = game.next_move()
    assert other.args[1] != answer.args[1]
    game.make(other)


def test_g4_opening_by_somebody_else_changes_nothing_but_the_sender(referee: Lockstep) -> None:
    """A move that is copied from the mempool leads to the place that the original leads to."""
    game = start(referee)
    move = game.next_move()
    with referee.branch():
        game.make(move)
        own = (game.match, referee.position(game.job_id))
    referee.call(move.name, referee.chain.accounts[9], *move.args)
    assert (game.match, referee.position(game.job_id)) == own
    assert referee.refused(move.name, move.sender, *move.args) == Reason.STALE


def test_s11_proofs_of_one_tree_are_nothing_in_another(referee: Lockstep) -> None:
    """The agreed state is proven in the tree in which the other one is disputed, and only there."""
    game = start(referee).play_to(Phase.ENTER_TRACE)
    move, history = game.next_move(), game.claims[0].history
    interval = game.claims[0].interval(game.match.first_step)
    assert game.match.tree_top == interval.top
    for index in range(history.count):
        other = (history.node(0, index), history.proof(index))
        args = (*move.args[:2], *other, *move.args[4:])
        assert referee.refused(move.name, move.sender, *args) == Reason.BAD_PROOF
    game.make(move)


def test_v3_leaf_is_computed_by_the_operator_that_was_entered(referee: Lockstep) -> None:
    """No other operator of the program, and no other attribute, decides a leaf."""
    game = start(referee).play_to(Phase.LEAF)
    move, encodings = game.next_move(), game.task.commitment.encodings
    own = encodings[game.match.operator]
    others = [e for e in encodings if e != own]
    for encoding in (*others, own[:2] + b"\x02" + own[3:], own + b"\0"):
        args = (*move.args[:2], encoding, move.args[3])
        assert referee.refused(move.name, move.sender, *args) == Reason.BAD_PROOF
