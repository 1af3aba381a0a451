"""The parts of the report: its text, its look, and the disputes that it comes with."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from moot.offchain.text import LONGEST, clean
from moot.sim.estimates import estimate_mean
from moot.sim.report import disputes
from moot.sim.report.drawing import HONEST, add_means, choose_looks, make_figure
from moot.sim.report.page import embed
from moot.sim.report.plots.profit import describe_break_even, find_crossings
from moot.sim.report.text import neutralise

PLAIN = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=LONGEST)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text())
def test_clean_text_is_one_short_line(text: str) -> None:
    """Whatever a text holds, what is shown of it is printable, on one line and short."""
    shown = clean(text)
    assert shown.isprintable()
    assert len(shown) <= LONGEST
    assert clean(shown) == shown


@given(PLAIN)
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    """Words without markup or controls are not changed."""
    assert clean(text) == text
    assert neutralise({"name": text}) == {"name": text}


@given(VALUES)
def test_no_text_of_a_figure_is_markup(value: object) -> None:
    """No text of a figure has an angle bracket left, except in templates of ours and data."""
    figure = neutralise({"data": [value], "hovertemplate": "%{x}<br>"})
    assert figure["hovertemplate"] == "%{x}<br>"
    texts = [value]
    while texts:
        here = texts.pop()
        if isinstance(here, dict):
            texts += [part for key, part in here.items() if not key.endswith("template")]
        elif isinstance(here, list):
            texts += here
        elif isinstance(here, str):
            assert "<" not in neutralise(here)


@given(VALUES)
def test_json_in_the_page_is_the_value_and_no_markup(value: object) -> None:
    """JSON is read back as what it was, and no parser of HTML sees anything in it."""
    text = embed(value)
    assert json.loads(text) == value
    assert not set("<>&") & set(text)


def test_intervals_are_students() -> None:
    """The interval of a mean is SciPy's; one value has none, and equal values a narrow one."""
    values = [1.0, 2.0, 4.0, 8.0]
    mean = estimate_mean(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert mean.value == 3.75
    assert (mean.low, mean.high) == pytest.approx((low, high))
    assert mean.margin == pytest.approx((high - low) / 2)
    assert estimate_mean([5.0]).margin == 0
    assert estimate_mean([5.0, 5.0]).margin == 0


def test_lines_say_of_how_many_runs_they_are() -> None:
    """A line goes through the means of runs, says how many these are, and has their intervals."""
    figure = make_figure("x", "y")
    add_means(figure, "line", choose_looks([])[HONEST], {2.0: [5.0], 1.0: [1.0, 2.0, 4.0, 8.0]})
    (line,) = figure.data
    assert (line.x, line.y, line.customdata) == ((1.0, 2.0), (3.75, 5.0), (4, 1))
    assert line.error_y.array[0] > 0 == line.error_y.array[1]


@given(st.sets(st.text(max_size=4), max_size=34))
def test_no_two_strategies_look_alike(names: set[str]) -> None:
    """Each strategy has a colour and dash of its own; honesty has always the same."""
    looks = choose_looks(names)
    assert set(looks) == names | {HONEST}
    assert len({(look.colour, look.dash) for look in looks.values()}) == len(looks)
    assert looks[HONEST] == choose_looks([])[HONEST]


@given(st.floats(-100, 100), st.floats(0.01, 100), st.sampled_from([-1, 1]))
def test_a_line_breaks_even_where_it_is_zero(where: float, slope: float, sign: int) -> None:
    """A straight line crosses once, where it is 0, wherever its points lie."""
    places = [where - 3, where - 1, where + 2, where + 5]
    points = [(x, sign * slope * (x - where)) for x in places]
    assert find_crossings(points) == [pytest.approx(where, abs=1e-6)]
    assert find_crossings([(x, abs(y) + 1) for x, y in points]) == []
    assert find_crossings([(0, 0), (1, 0), (2, 0)]) == []


def test_break_even_is_beside_the_honest() -> None:
    """A strategy breaks even where it earns what the honest do, and not where it earns nothing."""
    honest = {0.0: [2.0, 2.0], 1.0: [2.0, 2.0]}
    curves = {"honest": honest, "lazy": {0.0: [4.0], 1.0: [-2.0]}}
    assert "lazy at bond.eth = 0.333" in describe_break_even("bond.eth", curves)
    lower = {"honest": honest, "lazy": {0.0: [1.0], 1.0: [-1.0]}}
    assert describe_break_even("bond.eth", lower).startswith("No strategy breaks even")
    assert describe_break_even("bond.eth", {"lazy": honest}).startswith("There is no honest")


def compare_disputes(arities_log2: list[int]) -> None:
    """Play the disputes of some arities, and compare them with those of the report."""
    made_on, listed = disputes.read()
    arities = {1 << arity_log2 for arity_log2 in arities_log2}
    measured = disputes.measure(arities_log2)
    assert measured == [it for it in listed if it.arity in arities]
    assert made_on.items() <= disputes.make_document([]).items()


def test_disputes_of_the_report_cost_what_they_cost() -> None:
    """Those with the openings of the committed contract cost what the report says, to the unit."""
    compare_disputes([disputes.ARITIES_LOG2[-1]])


@pytest.mark.slow
def test_disputes_of_other_arities_cost_what_they_cost() -> None:
    """So do those on referees that are compiled for smaller openings."""
    compare_disputes(list(disputes.ARITIES_LOG2[:-1]))
    _, listed = disputes.read()
    assert {it.arity for it in listed} == {1 << it for it in disputes.ARITIES_LOG2}
    assert len(listed) == len(disputes.ARITIES_LOG2) * len(disputes.SIZES)


def test_the_command_imports_nothing_slow() -> None:
    """Asking for help loads neither the plots' library nor the tables'."""
    slow = "{'plotly', 'pyarrow', 'scipy', 'jinja2', 'numpy', 'torch'}"
    code = f"import moot.command.report, sys; print(*sorted({slow} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
