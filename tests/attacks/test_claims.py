from contracts.model.referee import compute_commitment
from contracts.reasons import Ending, Phase, Reason, Standing
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import compute_state_root, compute_tensor_root
from offchain.commitments.tree import Tree, hash_root
from offchain.programs.graph import Kind
from tests.lockstep.claims import Claim, Task, cheating
from tests.lockstep.game import SALT, Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.programs import fold
from tests.lockstep.tasks import folds, honest_kinds, kinds

ZERO = bytes(32)


def test_s5_honest_root_defended_by_silence_costs_its_defender_only(referee: Lockstep) -> None:
    """Who posts the honest root and does not defend it loses its bond; the claim wins."""
    honest = honest_kinds()
    game = Game(referee, kinds(), [honest, cheating(kinds(), 1, 6), honest]).assemble().start()
    assert (game.match.defender, game.match.challenger) == (0, 1)
    referee.mine_to(game.match.since + game.job.terms.clock_blocks + 1)
    position = referee.position(game.job_id)
    referee.call("timeout", game.members[1], game.job_id, position)
    standings = [member.standing for member in game.job.members]
    assert standings == [Standing.DEFEATED, Standing.REVEALED, Standing.REVEALED]
    assert game.start().finish() == (2, Ending.SCALAR)
    (settled,) = referee.call("settle", game.client, game.job_id)
    history = honest.history
    assert settled.args[1] == hash_root(Tag.HISTORY_ROOT, history.count, history.top)
    bond_wei, reward_wei = game.job.terms.bond_wei, game.job.reward_wei
    won = bond_wei + bond_wei // 2 + reward_wei
    assert referee.store.credits_wei[game.members[2]] == won


def test_s5_honest_root_defended_by_false_accumulators_does_not_fall(referee: Lockstep) -> None:
    """A false flag that lies about a fold loses its own match; the claim wins through the other."""
    task = folds(70, Kind.REDUCE)
    honest, liar = Claim(task), cheating(task, 0, 1)
    game = Game(referee, task, [honest, liar, honest]).assemble().start().play_to(Phase.FOLD)
    move = game.next_move()
    false = bytes(len(move.args[2]))
    referee.call(move.name, move.sender, *move.args[:2], false)
    game.shown = false
    assert game.finish() == (1, Ending.SCALAR)
    assert game.start().finish() == (2, Ending.SCALAR)
    (settled,) = referee.call("settle", game.client, game.job_id)
    assert settled.args[2] == 1


def test_s6_nobody_joins_twice_or_comes_back(referee: Lockstep) -> None:
    """One account has one seat, before and after its defeat, and shows one claim."""
    game = Game(referee, kinds(), [cheating(kinds(), 1, 6), honest_kinds()])
    game.commit(0)
    bond_wei = game.job.terms.bond_wei
    again = ("commit", game.members[0], game.job_id, SALT)
    assert referee.refused(*again, value_wei=bond_wei) == Reason.ALREADY_JOINED
    game.commit(1)
    referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(0)
    game.reveal(1)
    top = honest_kinds().history.top
    reveal = ("reveal", game.members[0], game.job_id, top, SALT)
    assert referee.refused(*reveal) == Reason.NOT_COMMITTED
    referee.mine_to(game.job.reveal_deadline + 1)
    game.start().finish()
    assert referee.refused(*again, value_wei=bond_wei) == Reason.TOO_LATE
    assert referee.refused(*reveal) == Reason.TOO_LATE
    assert referee.refused("start_match", game.client, game.job_id) == Reason.NO_DISPUTE


def test_s6_one_root_from_two_accounts_is_one_claim(referee: Lockstep) -> None:
    """Members with the same root do not play each other, and share the reward."""
    game = Game(referee, kinds(), [honest_kinds(), honest_kinds()]).assemble()
    assert referee.refused("start_match", game.client, game.job_id) == Reason.NO_DISPUTE
    (settled,) = referee.call("settle", game.client, game.job_id)
    assert settled.args[2] == 2


def test_s7_all_zero_tensors_are_content_like_any_other(referee: Lockstep) -> None:
    """A program whose state is all zeros is disputed and decided as any other is."""
    task = Task(fold(70), (folds(70).start[0] * 0,), ((),))
    honest, liar = Claim(task), cheating(task, 0, 1)
    with referee.branch():
        assert Game(referee, task, [honest, liar]).assemble().start().finish()[0] == 0
    assert Game(referee, task, [liar, honest]).assemble().start().finish()[0] == 1


def test_s7_zero_as_a_claim_is_a_claim(referee: Lockstep) -> None:
    """A member may show thirty-two zero bytes as its claim: it is disputed, and it falls."""
    game = Game(referee, kinds(), [honest_kinds(), honest_kinds()])
    zero = game.members[0]
    digest = compute_commitment(referee.store, game.job_id, zero, ZERO, ZERO)
    bond_wei = game.job.terms.bond_wei
    referee.call("commit", zero, game.job_id, digest, value_wei=bond_wei)
    game.commit(1)
    referee.mine_to(game.job.commit_deadline + 1)
    referee.call("reveal", zero, game.job_id, ZERO, ZERO)
    game.reveal(1)
    referee.mine_to(game.job.reveal_deadline + 1)
    assert referee.refused("settle", game.client, game.job_id) == Reason.STILL_DISPUTED
    game.start()
    assert (game.match.defender, game.match.node) == (0, ZERO)
    position = referee.position(game.job_id)
    for nodes in ((), (ZERO,), (ZERO, ZERO, ZERO)):
        refused = referee.refused("open", zero, game.job_id, position, nodes)
        assert refused == Reason.BAD_OPENING
    referee.mine_to(game.match.since + game.job.terms.clock_blocks + 1)
    referee.call("timeout", game.members[1], game.job_id, position)


def test_s7_zero_as_a_commitment_is_a_seat(referee: Lockstep) -> None:
    """A member may commit to zero; it has a seat, and a bond to lose."""
    game = Game(referee, kinds(), [honest_kinds()])
    bond_wei = game.job.terms.bond_wei
    referee.call("commit", game.members[0], game.job_id, ZERO, value_wei=bond_wei)
    referee.mine_to(game.job.commit_deadline + 1)
    refused = referee.refused("reveal", game.members[0], game.job_id, ZERO, ZERO)
    assert refused == Reason.NOT_COMMITTED
    referee.mine_to(game.job.reveal_deadline + 1)
    referee.call("settle", game.client, game.job_id)
    assert referee.store.burned_wei == bond_wei


def test_s10_nobody_but_the_job_says_how_long_a_history_is(referee: Lockstep) -> None:
    """A claim over more or fewer states than the job has cannot be opened, and loses."""
    honest = honest_kinds()
    roots = [honest.history.node(0, i) for i in range(honest.history.count)]
    for wrong in (roots[:-1], [*roots, roots[-1]]):
        with referee.branch():
            liar = Claim(honest.task)
            liar.history = Tree(Tag.HISTORY_NODE, wrong)
            game = Game(referee, honest.task, [liar, honest]).assemble().start()
            opening = (game.job_id, referee.position(game.job_id))
            for nodes in (wrong, liar.history.children(1, 0), liar.history.children(1, 1)):
                refused = referee.refused("open", game.members[0], *opening, tuple(nodes))
                assert refused == Reason.BAD_OPENING


def test_s4_start_is_the_jobs_own(referee: Lockstep) -> None:
    """A history that begins elsewhere loses at once, by its own first leaf."""
    task = kinds()
    other = Task(task.program, (task.start[0] * 0, *task.start[1:]), task.batches)
    game = Game(referee, task, [Claim(other), honest_kinds()]).assemble().start()
    assert game.finish() == (1, Ending.START)
    roots = [compute_tensor_root(tensor) for tensor in task.start]
    assert game.job.terms.start_root == compute_state_root(roots)
