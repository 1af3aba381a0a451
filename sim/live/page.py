"""The page of a market, as one HTML file whose server says what the run comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from moot.offchain.text import clean, clean_values
from moot.sim.live.charts import CHARTS
from moot.sim.live.sliders import Slider
from moot.sim.pages.render import SCREEN, embed, make_policy, render

HERE = Path(__file__).parent
LONGEST = 400
"""Characters of a text that are shown: an error of a run has fewer."""


def make_page(name: str, sliders: Sequence[Slider], token: str, state: Mapping[str, Any]) -> str:
    """Return the page of a market.

    Args:
        name: of its configuration.
        sliders: what can be moved.
        token: what a request has that moves one.
        state: what is known of the run.
    """
    charts = [asdict(chart) for chart in CHARTS]
    given = {"charts": charts, "state": state, "token": token}
    values = {
        "policy": partial(make_policy, is_live=True),
        "name": clean(name),
        "about": f"{state['jobs']:,} jobs, seed {state['seed']}",
        "charts": CHARTS,
        "sliders": [asdict(slider) | {"label": clean(slider.label)} for slider in sliders],
        "data": embed(clean_values(given, LONGEST)),
    }
    return render(HERE, values, base=SCREEN)
