"""The pages: links lead somewhere, lines can be read, and what is made is up to date."""

import re
from pathlib import Path

import pytest

from docs.tools.pages import PAGES as MADE
from docs.tools.pages import REFERENCE
from tests.documents import DOCS, FRONT, PAGES, ROOT, find_broken, list_blocks

LONGEST_LINE = 400
LONGEST_README = 150


def name_page(page: Path) -> str:
    """Return a page's name in the report of the tests."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link of every page leads to a file that is there, and to a heading that it has."""
    assert find_broken(page, page.read_text()) == []


def test_a_broken_link_is_found() -> None:
    """A link to no file, and one to no heading, are found; other sites are not asked."""
    text = (
        "# One\n[a](nowhere.md) [b](#one) [c](#two) [d](README.md#moot) [e](https://example.org)\n"
    )
    assert find_broken(ROOT / "page.md", text) == ["nowhere.md", "#two"]


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_no_line_is_a_wall(page: Path) -> None:
    """No line of a page has more than 400 characters."""
    lines = page.read_text().splitlines()
    assert [n for n, line in enumerate(lines, 1) if len(line) > LONGEST_LINE] == []


def test_no_test_asks_a_verb_without_the_command() -> None:
    """Click keeps the options of help that a verb was first asked with, and the page shows them."""
    asked = re.compile(r"\.invoke\(\s*(\w+)")
    for path in (ROOT / "tests").rglob("*.py"):
        assert set(asked.findall(path.read_text())) <= {"cli"}, path


def test_the_readme_is_read_in_two_minutes() -> None:
    """The README has 150 lines at most."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST_README


def test_every_page_is_in_the_index() -> None:
    """Every page is in the index of the site, and the index names no other."""
    index = DOCS / "index.md"
    listed = re.findall(r"^([a-z-]+(?:/[a-z-]+)?)$", index.read_text(), re.MULTILINE)
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES if page not in FRONT}
    assert sorted(listed) == sorted(pages - {"index"})


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_files_that_pages_name_are_there(page: Path) -> None:
    """A path of tests, docs or examples that stands in a page is the path of a file or a folder."""
    named = set(re.findall(r"`((?:tests|docs|examples)/[\w./*-]*\w)", page.read_text()))
    changes = (
        {"docs/own_strategy.py", "docs/own_mechanism.py"} if page.stem == "CHANGELOG" else set()
    )
    assert {name for name in named - changes if not any(ROOT.glob(name))} == set()


@pytest.mark.parametrize("name", MADE)
def test_made_pages_are_up_to_date(name: str) -> None:
    """Each page that is made from the code is what the code makes: `python docs/tools/pages.py`."""
    assert (REFERENCE / name).read_text() == MADE[name]()


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS.glob("tutorials/*.md")], ids=name_page)
def test_blocks_are_run_or_say_why_not(page: Path) -> None:
    """A block of the README or a tutorial is output, or is run; another one gives its reason."""
    for block in list_blocks(page.read_text()):
        is_output = block.language == "text" and " of: " in block.note
        is_run = block.language in {"python", "console"}
        assert is_output or is_run or block.excuse, block.code
