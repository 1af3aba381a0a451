"""The charts of a market's page: which measures each shows, and of what they are means."""

from dataclasses import dataclass
from typing import Literal

from moot.sim.analysis.over_time import WORDS

Whole = Literal["jobs", "served", "blocks"]
"""The count of a point by which its means are weighted: jobs, those that somebody served, rows of
the ledger."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: the measure of a point, its words, and what it is a mean of."""

    key: str
    label: str
    of: Whole


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page.

    Attributes:
        name: its place in the page.
        title: its heading.
        unit: of all its lines.
        about: what one sees, as a sentence.
        lines: what it draws; none for a line for each strategy.
        is_share: whether it is drawn from 0 to 1.
        in_percent: whether its numbers are written so.
    """

    name: str
    title: str
    unit: str
    about: str
    lines: tuple[Line, ...] = ()
    is_share: bool = False
    in_percent: bool = False


CHARTS = (
    Chart(
        "fraud",
        "Fraud",
        "share of jobs",
        "How often providers cheat, clients get a right answer, and somebody checks.",
        tuple(Line(name, WORDS[name], "jobs") for name in ("cheated", "right", "checked")),
        is_share=True,
        in_percent=True,
    ),
    Chart(
        "prices",
        "Prices",
        "ETH a job",
        "What a client pays for a job, and everybody for its gas.",
        (
            Line("price_eth", "price of a job", "served"),
            Line("fees_eth", "fees for its gas", "served"),
        ),
    ),
    Chart(
        "reputation",
        "Reputation",
        "0 to 1",
        "The reputation of who serves a job, by strategy.",
        is_share=True,
    ),
    Chart(
        "queue",
        "Queue",
        "open jobs",
        "How many jobs are sold and not yet settled.",
        (Line("open_jobs", "open jobs", "blocks"),),
    ),
    Chart(
        "gas",
        "Gas",
        "gwei",
        "What a unit of gas costs, without the tip.",
        (Line("base_fee_gwei", "base fee", "blocks"),),
    ),
)
