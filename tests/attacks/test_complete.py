"""The list of attacks: every item has a test, or a reason why there is none."""

import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "explanation" / "security.md"
FAMILIES = {"C": 11, "S": 11, "H": 6, "M": 16, "G": 8, "V": 5, "A": 11, "D": 10, "R": 22}
ITEMS = [f"{family}{n}" for family, last in FAMILIES.items() for n in range(1, last + 1)]


def find_tests() -> set[str]:
    """Return the names of all tests of this folder."""
    found = re.compile(r"^def (test_\w+)", re.MULTILINE)
    return {name for path in HERE.glob("test_*.py") for name in found.findall(path.read_text())}


def test_every_item_has_a_test() -> None:
    """A test's name begins with the items that it is about, and there is one for each."""
    tests = find_tests()
    for item in ITEMS:
        assert any(f"_{item.lower()}_" in name for name in tests), item


def test_every_item_has_a_line_that_names_its_tests() -> None:
    """The table has a row for each item, and no test in it is missing here."""
    rows = re.findall(r"^\| ([A-Z]\d+) \|.*\|$", TABLE.read_text(), re.MULTILINE)
    assert rows == ITEMS
    assert set(re.findall(r"`(test_\w+)`", TABLE.read_text())) <= find_tests()
