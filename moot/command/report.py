"""`moot report`: one HTML file about a results folder."""

import json
from pathlib import Path

import click

from moot.command import options
from moot.sim.writing import write_whole

FILE = "report.html"


@click.command(
    short_help="Make one HTML file with plots of a market's results.",
    epilog="\b\n"
    "Examples:\n"
    "  moot report results\n"
    "  moot report results -o audits.html --plot my_plot.py",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"The file to write.  [default: DIR/{FILE}]",
)
@click.option(
    "--plot",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python file with a plot of yours, as PLOT; as often as you like.",
)
@options.as_json
def report(folder: Path, output: Path | None, files: tuple[Path, ...], as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Make one HTML file with plots of a market's results.

    DIR is what `moot market CONFIG.toml -o DIR` or `moot sweep CONFIG.toml -o DIR` has written.
    The file holds everything that it shows, and asks nothing of the network. Where DIR lacks what
    a plot is drawn from, the file says which command makes it.
    """
    from moot.sim.report.page import make_page  # noqa: PLC0415 - imports plotly and pyarrow
    from moot.sim.report.plots.load import load_plots  # noqa: PLC0415 - likewise
    from moot.sim.report.results import Results  # noqa: PLC0415 - likewise

    results = Results(folder)
    page = make_page(results, load_plots(files))
    path = output or folder / FILE
    write_whole(path, page.text)
    if as_json:
        plots = {section.name: section.reason or "drawn" for section in page.sections}
        told = {"file": str(path), "runs": results.runs.num_rows, "games": page.games}
        click.echo(json.dumps(told | {"plots": plots}, indent=2))
        return
    drawn = sum(not section.reason for section in page.sections)
    click.echo(f"{path}: {drawn} of {len(page.sections)} plots, {page.games} games move by move")
    for section in page.sections:
        if section.reason:
            click.echo(f"  not drawn: {section.title}: {section.reason}")
