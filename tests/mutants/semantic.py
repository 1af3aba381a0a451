"""Semantic mutants: hand-written changes of one rule of the game, each described by a sentence."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.generate import Mutant, name_functions

SEMANTIC = Path(__file__).with_name("semantic.json")
"""A list of patches: the file, what the mutant says, and the text that it has in place of another,
which stands in the file once."""


def make_semantic(file: str, text: str) -> Iterator[Mutant]:
    """Yield the semantic mutants of a source.

    Raises:
        ValueError: a patch does not fit the source any more.
    """
    functions = list(name_functions(text, text.count("\n") + 1))
    for patch in json.loads(SEMANTIC.read_text(encoding="utf-8")):
        if patch["file"] != file:
            continue
        before, *rest = text.split(patch["old"])
        if len(rest) != 1:
            raise ValueError(f"{file} has {len(rest)} places for the patch: {patch['says']}")
        function = functions[before.count("\n") + patch["old"].startswith("\n")]
        name = f"{file} {function}: {patch['says']}"
        yield Mutant(file, function, name, before + patch["new"] + rest[0])
