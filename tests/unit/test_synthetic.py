"""A new synthetic job is a task and one class, and is played on the contract like any other."""

from collections.abc import Mapping, Sequence

from moot.contracts.deployment import deploy_referee
from moot.contracts.reasons import Ending
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.chain import connect
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Slot, immediate
from moot.sim.synthetic.jobs import SyntheticRun, SyntheticTask, make_program, make_rows
from moot.sim.synthetic.run_length import RunLengthTensor

F32, SHAPE, ONE, TWO = DType.FLOAT32, (1 << 10, 1 << 10), 0x3F800000, 0x40000000
X = Operand(Origin.NODE, F32, 0, 0, make_rows(SHAPE))
RAISE = Node(Kind.MAP, Function.MAX, F32, SHAPE, (X, immediate(F32, TWO)))


class Raising(SyntheticRun):
    """Each step raises x, which is 1, to 2; a liar leaves its second half from some step on."""

    def list_outputs(self, step: int) -> Mapping[int, RunLengthTensor]:
        """See SyntheticRun."""
        return {0: self.list_state(step)[0], 1: self.list_state(step + 1)[0]}

    def list_state(self, step: int) -> Sequence[RunLengthTensor]:
        """See SyntheticRun."""
        half = ONE if step > self.changed else TWO
        return [RunLengthTensor(F32, SHAPE, {0: TWO, 1 << 19: half})] if step else self.task.start


def test_a_new_job_is_played_on_the_contract() -> None:
    """Of 2^20 steps and 2^20 elements it comes down to where the lie begins, and the truth wins."""
    program = make_program([Slot("x", F32, SHAPE)], [(Origin.STATE, 0)], [RAISE], [1])
    start = [RunLengthTensor(F32, SHAPE, {0: ONE})]
    task = SyntheticTask(program, (), lambda _: (), 1 << 20, 1 << 5, start=start)
    with connect(accounts=3) as chain:
        client, *accounts = chain.accounts
        referee = ChainReferee(chain, deploy_referee(chain, client), 0)
        liar = Player("liar", accounts[0], Raising(task, 0xAAAAA))
        honest = Player("honest", accounts[1], Raising(task, task.steps))
        game = Game(referee, task, client, [liar, honest])
        *_, leaf, _, _ = [move.call for move in game.play()]
    assert (leaf, game.get_winners()) == ("leaf", ["honest"])
    assert game.ended[0].ending is Ending.SCALAR
    assert game.ended[0].board.facts.element == 1 << 19
