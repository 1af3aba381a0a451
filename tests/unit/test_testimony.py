"""What players can show: a synthetic run shows all that a real one does."""

import numpy as np
import pytest

from moot.contracts.reasons import LeafMode
from moot.offchain.commitments.tensors import TensorTree
from moot.offchain.disputes.evidence.rulings import rule_for
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.play.locate import locate
from moot.offchain.disputes.referee.port import ModelReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.programs.graph import Origin
from moot.sim.synthetic.products import FIRST_PRODUCT, Lie, ProductRun, Size, make_task, seat
from tests.quick import every

SIZE = Size(checkpoints=4, checkpoint_every=2, operators=8, rows=40, columns=16, terms=8)
ACCOUNTS = tuple(f"0x{number:040x}" for number in range(1, 5))
CLIENT, HONEST, LIAR, VERIFIER = ACCOUNTS


def open_game(lie: Lie) -> Game:
    """Return a synthetic game that ends with the bounded verifier's ruling."""
    referee = ModelReferee(dict.fromkeys(ACCOUNTS, 10**20))
    game = seat(referee, SIZE, ACCOUNTS[:3], [lie], Stakes())
    game.leaf_mode, game.verifier, game.ruler = LeafMode.OPERATOR, VERIFIER, rule_for
    return game


@pytest.mark.parametrize("element", every(12, [0, 300, 639]))
def test_the_verifier_rules_on_synthetic_runs(element: int) -> None:
    """It computes an operator from what such a run shows, and the lie is found in its tensors."""
    lie = Lie(step=5, operator=FIRST_PRODUCT + 1, element=element, term=3, mask=4)
    game = open_game(lie)
    list(game.play())
    assert game.get_winners() == ["honest-1"]
    (ended,) = game.ended
    (side,) = ended.losing_sides
    found = locate(game, ended, side)
    assert (found.step, found.operator, found.element) == (lie.step, lie.operator, element)
    assert found.scalar is not None
    assert found.scalar.claimed == found.scalar.correct ^ lie.mask


def test_a_synthetic_tensor_is_the_array_that_it_stands_for() -> None:
    """Its elements, header and root are those of the array."""
    run = ProductRun(make_task(SIZE), Lie(step=1, element=77))
    x, w, y = (run.tensor(3, Origin.STATE, slot) for slot in range(3))
    start, *factors = run.operands(3, FIRST_PRODUCT)
    assert start is None
    for tensor, array in zip((x, w), factors, strict=True):
        assert array is not None
        assert TensorTree(array).root == tensor.root
    array = run.tensor(3, Origin.NODE, FIRST_PRODUCT).array
    assert TensorTree(array).root == y.root
    assert np.flatnonzero(np.diff(array.reshape(-1))).tolist() == [76]
