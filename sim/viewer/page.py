"""The page of the viewer, as one HTML file: with a record in it, or with what a server tells."""

from pathlib import Path
from typing import Any

import msgspec

from moot.offchain.record.schema import Record, RecordedReferee, make_record
from moot.offchain.text import clean, clean_values
from moot.sim.pages.render import SCREEN, embed, make_policy, render

HERE = Path(__file__).parent
LONGEST = 400
"""Characters of a text that are shown: more than the bits of any accumulator have."""


def make_page(record: Record, *, is_live: bool = False) -> str:
    """Return the page of a record.

    Args:
        record: what it shows, or begins with.
        is_live: whether it asks its server for what has happened since.
    """
    about = record.court
    values = {
        "policy": lambda style, scripts: make_policy(style, scripts, is_live=is_live),
        "title": clean(about.referee),
        "about": clean(f"Referee {about.referee} on chain {about.chain_id}, {about.arithmetic}."),
        "record": embed(show(record) | {"is_live": is_live}),
    }
    return render(HERE, values, base=SCREEN)


def make_live_page(about: RecordedReferee) -> str:
    """Return the page of a referee whose frames come from its server."""
    return make_page(make_record(about, {}, 0, []), is_live=True)


def show(form: Any) -> Any:
    """Return a record or a part of one as plain values, whose texts are fit to be shown."""
    return clean_values(msgspec.to_builtins(form), LONGEST)
