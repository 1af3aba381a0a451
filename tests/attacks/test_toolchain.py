import shutil
from pathlib import Path

import pytest

from moot.contracts.compiler import SOURCE_DIR, compile_contract
from moot.contracts.deployment import deploy_referee
from moot.contracts.reasons import Ending
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import connect
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, immediate
from moot.offchain.programs.semantics import compute_element
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, open_court
from tests.attacks.elements import F32, ROWS, STATE, decide
from tests.attacks.twin import Twin
from tests.quick import only

STATE_OPERAND = Operand(Origin.STATE, F32, 0, 0, ROWS)
BOOL = DType.BOOL
VERSION = "# pragma version 0.4.3\n"


@pytest.mark.parametrize(
    "node",
    [
        Node(Kind.MAP, Function.MUL, F32, (2,), (STATE_OPERAND, STATE_OPERAND)),
        Node(Kind.MAP, Function.SQRT, F32, (2,), (STATE_OPERAND,)),
        Node(Kind.MAP, Function.LT, BOOL, (2,), (STATE_OPERAND, immediate(F32, 0x40490FDB))),
        Node(Kind.MOVE, Function.COPY, F32, (2,), (STATE_OPERAND,)),
        Node(Kind.RANDOM, Function.UNIFORM, F32, (2,), seed=7, stream=9),
    ],
)
@pytest.mark.parametrize("element", only({1}, [0, 1]))
def test_v1_contract_computes_what_the_definition_says(
    referee: Twin, node: Node, element: int
) -> None:
    """The readable definition's bits win, and those next to them lose, at any element."""

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place, operand
        return STATE.get_bits(index)

    right = compute_element(ORDERED, node, element, 0, fetch)
    assert decide(referee, node, (right, right ^ 1), element) == (0, Ending.SCALAR)
    assert decide(referee, node, (right ^ 1, right), element) == (1, Ending.SCALAR)


def test_v2_job_names_its_program_for_ever(referee: Twin) -> None:
    """What a job keeps of its program is what every provider computes of it, before and after.

    The arithmetic's version is the contract itself, in which nothing can be changed.
    """
    court = open_court(referee, LIE, HONEST)
    header = court.task.commitment.header
    leaf = referee.contract.call("leaf_contract")
    court.finish(court.begin())
    court.settle(1)
    terms = referee.job(court.job_id).terms
    assert (terms.program_top, terms.layout) == (header.top, header.layout)
    assert (terms.operators, terms.state_slots) == (header.operators, header.state_slots)
    assert referee.contract.call("leaf_contract") == leaf


def play_with(folder: Path) -> None:
    """Play a game in lock-step with the model, by contracts compiled from a folder."""
    with connect(accounts=10) as chain:
        referee = Twin(chain, deploy_referee(chain, chain.accounts[-1], source_dir=folder))
        court = open_court(referee, LIE, Lie(3), HONEST).assemble()
        court.finish(court.start(0, 1))
        court.wait()
        assert court.finish(court.start(0, 2)) == (court.members[2], Ending.SCALAR)
        court.settle(2)
        referee.call("collect", court.members[2], court.job_id)
        referee.compare()


@pytest.mark.slow
@pytest.mark.parametrize("pragma", ["optimize gas", "optimize codesize", "experimental-codegen"])
def test_v4_other_compilers_make_the_same_leaf(tmp_path: Path, pragma: str) -> None:
    """Compiled for size, for gas or by the other back end, the leaf decides as the model does."""
    folder = tmp_path / "source"
    shutil.copytree(SOURCE_DIR, folder)
    path = folder / "leaf.vy"
    lines = path.read_text().splitlines(keepends=True)
    assert lines[0] == VERSION
    kept = [line for line in lines[1:] if not line.startswith("# pragma optimize")]
    path.write_text("".join([VERSION, f"# pragma {pragma}\n", *kept]))
    artifact = compile_contract("leaf", folder)
    if artifact.bytecode == compile_contract("leaf").bytecode:
        pytest.skip("that is how it is compiled")
    play_with(folder)


def test_v4_compiler_is_pinned() -> None:
    """Every source names the one version of the compiler that has been tested."""
    for path in SOURCE_DIR.rglob("*.vy*"):
        assert path.read_text().startswith(VERSION), path.name


def test_v4_sources_rely_on_no_lock() -> None:
    """Nothing is safe only because of a re-entrancy lock, which compilers have got wrong before."""
    for path in SOURCE_DIR.rglob("*.vy*"):
        assert "nonreentrant" not in path.read_text(), path.name
