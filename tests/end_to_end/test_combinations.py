"""What goes with what: each cell of docs/reference/combinations.md is what the page says."""

from collections.abc import Iterator

import pytest

from docs.tools.combinations import (
    CELLS,
    LEAF,
    NEEDS_DEVICE,
    PAGE,
    WORKS,
    Cell,
    Row,
    opened_node,
    play,
    read,
    render,
)
from moot.contracts.reasons import LeafMode
from moot.offchain.errors import UsageError
from moot.offchain.providers.setting import choose_leaf
from tests.quick import only

QUICK = {Cell(Row("ordered", "scalar", "cpu", 1), "fp32", "tester")} | {
    cell
    for cell, said in read(PAGE.read_text()).items()
    if said not in {WORKS, NEEDS_DEVICE}
    if cell.chain == "tester" and cell.row.arithmetic not in {"ampere", "hopper"}
}
"""A cell that works, and those that are refused before anything is captured."""


def describe(cell: Cell) -> str:
    """Return a cell's choices in one word."""
    return "-".join(map(str, (*cell.row, cell.precision, cell.chain)))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield the URL of a node."""
    with opened_node() as found:
        yield found


@pytest.fixture(scope="module")
def page() -> dict[Cell, str]:
    """Return what the page says."""
    return read(PAGE.read_text())


@pytest.mark.parametrize("cell", only(QUICK, CELLS), ids=describe)
def test_a_cell_is_what_the_page_says(cell: Cell, url: str, page: dict[Cell, str]) -> None:
    """It works, or it is refused in the one line of its note; a device may do either."""
    expected, found = page[cell], play(cell, url)
    assert expected in {found, NEEDS_DEVICE}


def test_the_page_has_every_cell(page: dict[Cell, str]) -> None:
    """Each combination has its cell: it works, needs a device, or its note says what to choose."""
    assert page.keys() == set(CELLS)
    for cell, found in page.items():
        assert found in {WORKS, NEEDS_DEVICE} or "choose" in found, cell
    works = [cell for cell, found in page.items() if found == WORKS]
    assert {cell.row.leaf for cell in works} == {*LEAF}
    assert render(page) in PAGE.read_text()


@pytest.mark.parametrize("arithmetic", ["ordered", "logged"])
def test_the_leaf_is_chosen_by_the_arithmetic(arithmetic: str) -> None:
    """Without --leaf the contract decides where it can, and the verifier where it can't."""
    leaf_mode = LeafMode.OPERATOR if arithmetic == "logged" else LeafMode.SCALAR
    assert choose_leaf(None, arithmetic) is leaf_mode


def test_a_leaf_that_no_contract_computes_is_refused() -> None:
    """Who asks for it is told which leaf to choose."""
    with pytest.raises(UsageError, match="choose the leaf operator"):
        choose_leaf("scalar", "logged")
