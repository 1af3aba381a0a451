"""How results are shown in a notebook: as tables, and as the pages that the command line writes."""

from html import escape
from typing import Any


class Displayable:
    """A result that a notebook shows as a table of its `to_dict()`."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return make_html_table(self.to_dict())


def make_html_table(values: dict[str, Any]) -> str:
    """Return a table with a row for each key; a dictionary in it is a table, too."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(str(key))}</th><td>{_show(value)}</td></tr>"
        for key, value in values.items()
    )
    return f"<table>{rows}</table>"


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return make_html_table(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{len(value):,} rows"
    return escape("" if value is None else str(value))


def make_frame(page: str, height: int = 720) -> str:
    """Return a page as a part of a notebook, apart from the notebook's own scripts and styles."""
    return (
        f'<iframe srcdoc="{escape(page)}" width="100%" height="{height}" '
        'style="border:0" sandbox="allow-scripts"></iframe>'
    )
