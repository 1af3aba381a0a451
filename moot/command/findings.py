"""The findings of a conformance kit, as people and programs read them."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from moot.command import options

if TYPE_CHECKING:
    from moot.sim.economy.conformance import Finding


def tell_findings(
    subject: str, about: Mapping[str, str], findings: "Sequence[Finding]", *, as_json: bool
) -> int:
    """Print what was found, and return the status to exit with.

    Args:
        subject: what was tried, such as `strategy`.
        about: what it is called, and more that `--json` tells.
        findings: of the kit.
        as_json: whether to print one JSON object.
    """
    if as_json:
        told = [finding._asdict() for finding in findings]
        click.echo(json.dumps({**about, "findings": told}, indent=2))
    else:
        _show(subject, about[subject], findings)
    return 0 if all(finding.is_met for finding in findings) else 1


def _show(subject: str, name: str, findings: "Sequence[Finding]") -> None:
    """Print what was found, for people."""
    table = Table(title=name, box=None, pad_edge=False, title_justify="left")
    for heading in ("", f"what is asked of a {subject}", "what was seen"):
        table.add_column(heading)
    for finding in findings:
        sign = Text("yes", "green") if finding.is_met else Text("no", "red")
        table.add_row(sign, finding.check, finding.detail)
    options.make_console().print(table)
