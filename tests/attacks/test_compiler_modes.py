import shutil
from pathlib import Path

import pytest

from contracts.compiler import SOURCE_DIR, compile_contract
from contracts.reasons import Ending
from offchain.chain import connect
from tests.lockstep.claims import cheating
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds

VERSION = "# pragma version 0.4.3\n"


@pytest.mark.slow
def test_v4_other_optimiser_compiles_to_the_same_referee(tmp_path: Path) -> None:
    """Compiled for size instead of gas, the referee plays and pays in lock-step with the model."""
    folder = tmp_path / "source"
    shutil.copytree(SOURCE_DIR, folder)
    for name in ("leaf", "referee"):
        path = folder / f"{name}.vy"
        source = path.read_text()
        assert source.startswith(VERSION)
        path.write_text(source.replace(VERSION, VERSION + "# pragma optimize codesize\n", 1))
    with connect(accounts=10) as chain:
        leaf = chain.deploy(compile_contract("leaf", folder), sender=chain.accounts[-1])
        artifact = compile_contract("referee", folder)
        assert artifact.bytecode != compile_contract("referee").bytecode
        contract = chain.deploy(artifact, leaf.address, sender=chain.accounts[-1])
        referee = Lockstep(chain, contract, {})
        claims = [cheating(kinds(4, 2), 1, index) for index in (6, 9, 7)]
        game = Game(referee, kinds(4, 2), [*claims, honest_kinds(4, 2)]).assemble()
        endings = [game.start().finish() for _ in range(3)]
        assert endings[-1] == (3, Ending.SCALAR)
        referee.call("settle", game.client, game.job_id)
        referee.call("withdraw", game.members[3])
        referee.compare_all()
