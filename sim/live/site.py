"""The site of a market's page: the page, what its run comes to, and sliders that are moved."""

import math
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from moot.offchain.bounded_http import LOOPBACK, Bounds
from moot.offchain.errors import MootError, UsageError
from moot.offchain.text import clean_values
from moot.sim.economy.config import Config
from moot.sim.experiments.plan import check_names
from moot.sim.live.page import LONGEST, make_page
from moot.sim.live.runner import Runner
from moot.sim.live.sliders import list_sliders, move
from moot.sim.pages.server import HTML, JSON, Found, Heads
from moot.sim.pages.server import serve as serve_site

MARKET = "/market"
"""The address of the run: read for what it comes to, sent values to for another one."""
TOKEN = "X-Moot-Token"  # noqa: S105 - the name of a head, and no token
"""The head without which no slider is moved: other sites' pages cannot know its value."""
FORMAT, VERSION = "moot live market", 1


class MarketSite:
    """The site of a market.

    Args:
        name: of the configuration.
        config: what is played first.
        runner: plays it.

    Attributes:
        most_bytes: what a request may bring.
        token: what a request that moves a slider has in its head.
    """

    most_bytes = 4096

    def __init__(self, name: str, config: Config, runner: Runner) -> None:
        self._name, self._first, self._runner = name, config, runner
        self._sliders = list_sliders(config)
        self._moved: dict[str, float] = {}
        self._turn = threading.Lock()
        self.token = secrets.token_urlsafe(24)

    def find(self, target: str) -> Found | None:
        """Return what is at an address; None if there is no such thing."""
        path = urlsplit(target).path
        if path == "/":
            page = make_page(self._name, self._sliders, self.token, self.describe())
            return Found(HTML, page.encode())
        return _answer(self.describe()) if path == MARKET else None

    def take(self, target: str, headers: Heads, body: bytes) -> Found | None:
        """Move sliders, and play the market again; a refusal says why, and changes nothing."""
        if urlsplit(target).path != MARKET:
            return None
        if not secrets.compare_digest(headers.get(TOKEN, "").encode(), self.token.encode()):
            problem = f"a request that moves a slider has the head {TOKEN}; reload the page"
            return _refuse(problem, HTTPStatus.FORBIDDEN)
        try:
            self._move(_read_values(body))
        except MootError as error:
            return _refuse(" ".join(str(error).split()), HTTPStatus.BAD_REQUEST)
        return _answer(self.describe())

    def describe(self) -> dict[str, Any]:
        """Return what is known of the run, and where the sliders stand."""
        begun = {slider.key: slider.value for slider in self._sliders}
        moved = self._moved
        changed = {key: value for key, value in moved.items() if value != begun[key]}
        return {
            "format": FORMAT,
            "version": VERSION,
            "values": begun | moved,
            "settings": [f"{key}={value:.9g}" for key, value in changed.items()],
            **self._runner.describe(),
        }

    def _move(self, values: dict[str, float]) -> None:
        with self._turn:
            moved = self._moved | values
            self._runner.play(move(self._first, self._sliders, moved))
            self._moved = moved


def _read_values(body: bytes) -> dict[str, float]:
    try:
        values = msgspec.json.decode(body, type=dict[str, float])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f'a request is a JSON object of numbers by keys, such as {{"bond.eth": 0.5}}: {error}'
        ) from error
    for key, value in values.items():
        if not math.isfinite(value):
            raise UsageError(f"{key} = {value} is not a number that a market can have")
    return values


def _answer(value: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Found:
    return Found(JSON, msgspec.json.encode(clean_values(value, LONGEST)), status)


def _refuse(problem: str, status: HTTPStatus) -> Found:
    return _answer({"problem": problem}, status)


@contextmanager
def serve(
    name: str, config: Config, port: int = 0, bounds: Bounds | None = None
) -> Iterator[tuple[str, str]]:
    """Play a market, and serve its page on loopback, for as long as the context lasts.

    Args:
        name: of the configuration.
        config: what is played first.
        port: to listen at; 0 for any that is free.
        bounds: what readers may do.

    Yields:
        The address of the page, and the token of requests that move sliders.

    Raises:
        UsageError: the configuration is impossible, or there is somebody else at the port.
    """
    check_names(config)
    runner = Runner(config)
    site = MarketSite(name, config, runner)
    with serve_site(site, LOOPBACK, port, bounds, runner) as url:
        yield url, site.token
