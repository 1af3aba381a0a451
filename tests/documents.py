"""The pages that people read: where they are, their links, their headings, their code blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FRONT = tuple(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
PAGES = (*FRONT, *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts))

FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1\s*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page.

    Attributes:
        language: what stands behind the fence.
        code: what is in it.
        note: the HTML comment right before it: `file: NAME`, `not run: REASON`, or another.
    """

    language: str
    code: str
    note: str

    @property
    def file(self) -> str:
        """The name under which a reader is told to save the block, if so."""
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else ""

    @property
    def excuse(self) -> str:
        """Why the block is not run, if so."""
        return self.note.removeprefix("not run: ") if self.note.startswith("not run: ") else ""


def list_blocks(text: str) -> list[Block]:
    """Return the code blocks of a page."""
    return [
        Block(found["language"], found["code"], found["note"] or "")
        for found in BLOCK.finditer(text)
    ]


def list_links(text: str) -> Iterator[str]:
    """Yield where the links of a page lead, but for other sites; code blocks have none."""
    for target in LINK.findall(FENCE.sub("", text)):
        if not re.match(r"\w+:", target):
            yield target


def list_anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    broken = []
    for target in list_links(text):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        anchors = {""}
        if path == page:
            anchors |= list_anchors(text)
        elif path.suffix == ".md" and path.exists():
            anchors |= list_anchors(path.read_text())
        if anchor not in anchors or not (path == page or path.exists()):
            broken.append(target)
    return broken


def list_commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block, and the lines that it is said to print."""
    command, told = "", list[str]()
    for line in block.code.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, told
            command, told = line[2:], []
        else:
            told.append(line)
    if command:
        yield command, told
