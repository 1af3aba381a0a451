"""Several nodes of one chain, of which one is used: the first that answers, and is not behind.

A node that was left is not asked for a while, which doubles each time.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from moot.offchain.chain.answers import CheckedTransport
from moot.offchain.chain.transports import REFUSED, HttpTransport, Question, open_transport
from moot.offchain.errors import ChainError, ChainIdChanged, ChainUnavailable

ENDPOINT_TIMEOUT_S = 5.0
"""How long one of several nodes may take to answer."""
STALLED_S = 60.0
"""A node whose latest block is older is compared with the others."""
MOST_BEHIND = 2
"""Blocks that a node may be behind the highest that was seen."""

FIRST_REST_S, LONGEST_REST_S = 1.0, 64.0
"""How long a node is left alone that has failed, at first and at most, where there are others."""

_UNREPEATABLE = frozenset({"eth_sendTransaction"})
_NODE_FAULTS = frozenset({-32603, REFUSED, -32002, -32601, 429})
"""Errors of a node itself: internal, too many requests, not ready, method unknown."""
_RANGE = re.compile(
    r"more than|block range|range|too many (logs|results|blocks)|limit|exceed|large"
)
_RATE = re.compile(r"rate|per (second|minute|day)|requests|quota|credits|capacity")

Say = Callable[[str], None]


def say_nothing(line: str) -> None:
    """Take a line, and do nothing."""
    del line


class Endpoints:
    """A transport over several nodes in the order of preference; see Transport.

    All answers are checked (`answers.py`). A node that hangs, breaks off, talks nonsense, has
    another chain id, is behind, or answers with an error of its own is left for the next, and `say`
    gets a line that says which one is used.

    Args:
        urls: http(s) or ws(s) addresses.
        chain_id: the id that every node must have; that of the first node that answers if None.
        say: takes lines for people.
        stalled_s: time without a new block after which other nodes are looked at.

    Raises:
        ChainUnavailable: none of them answers.
        ChainIdChanged: the only ones that answer are of another chain.
    """

    def __init__(
        self,
        urls: Sequence[str],
        chain_id: int | None = None,
        say: Say = say_nothing,
        stalled_s: float = STALLED_S,
    ) -> None:
        self.urls = tuple(urls)
        self.chain_id = chain_id
        self._say = say
        self._stalled_s = stalled_s
        self._opened: dict[str, CheckedTransport] = {}
        self._heights: dict[str, int] = {}
        self._rests: dict[str, tuple[float, float]] = {}
        self._grown = time.monotonic()
        self.url = ""
        self._choose(self.urls)

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        return self.ask_many([(method, params)])[0]

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport; what may be asked twice is asked of the next node if one fails."""
        self._look_around()
        is_repeatable = not any(method in _UNREPEATABLE for method, _ in questions)
        failure: ChainError | None = None
        faulty: list[Any] | None = None
        for _ in self.urls:
            try:
                answers = self._ask_one(self.url, questions)
            except ChainUnavailable as error:
                failure = failure or error
                problem = error.problem
            else:
                self._note_height(questions, answers)
                if not any(map(_is_fault, questions, answers)):
                    self._rests.pop(self.url, None)
                    return answers
                faulty, problem = faulty or answers, "it answers with an error of its own"
            if not is_repeatable or len(self.urls) == 1 or not self._leave(problem):
                break
        if faulty is not None:
            return faulty
        assert failure is not None
        raise failure

    def close(self) -> None:
        """See Transport."""
        for transport in self._opened.values():
            transport.close()

    def ask_others(self, questions: Sequence[Question]) -> list[list[Any]]:
        """Return what each node says that is not in use, and that is not left alone for now."""
        found = []
        for url in self.urls:
            if url == self.url or self._rests.get(url, (0.0, 0.0))[0] > time.monotonic():
                continue
            try:
                identity, *answers = self._ask_one(url, [("eth_chainId", ()), *questions])
                if identity.get("result") != hex(self.chain_id or 0):
                    raise ChainUnavailable(url, "it is of another chain")
            except ChainError:
                self._let_rest(url)
            else:
                found.append(answers)
        return found

    def distrust(self, problem: str) -> None:
        """Leave the node in use, whose answers contradict each other or what is known."""
        if len(self.urls) > 1:
            self._leave(problem)

    def _leave(self, problem: str) -> bool:
        """Go on with the node after the one in use; False if no other is fit."""
        self._let_rest(self.url)
        place = self.urls.index(self.url)
        others = self.urls[place + 1 :] + self.urls[:place]
        left = self.url
        with suppress(ChainError):
            self._choose(others, f"; left {left}: {problem}")
            return True
        return False

    def _let_rest(self, url: str) -> None:
        """Leave a node alone for a while, and believe nothing of what it said of its height."""
        self._heights.pop(url, None)
        _, rest_s = self._rests.get(url, (0.0, FIRST_REST_S))
        self._rests[url] = time.monotonic() + rest_s, min(2 * rest_s, LONGEST_REST_S)

    def _order(self, candidates: Sequence[str]) -> list[str]:
        """Put those last that are left alone for now, the one first whose rest is over soonest."""
        now = time.monotonic()
        ends = {url: max(now, self._rests.get(url, (now, 0.0))[0]) for url in candidates}
        return sorted(candidates, key=ends.__getitem__)

    @property
    def _height(self) -> int:
        """The highest block that was seen, by nodes that are believed."""
        return max(self._heights.values(), default=0)

    def _choose(self, candidates: Sequence[str], why: str = "") -> None:
        """Use the first of these nodes that is fit, and say so."""
        failure: ChainError | None = None
        for url in self._order(candidates):
            try:
                height = self._check(url)
            except ChainError as error:
                failure = failure or error
                if len(self.urls) > 1:
                    self._let_rest(url)
                    self._say(f"not using {url}: {error}")
                continue
            self._heights[url] = max(self._heights.get(url, 0), height)
            self.url = url
            if len(self.urls) > 1:
                self._say(f"using {url} at block {height}{why}")
            return
        raise failure or ChainUnavailable(" ".join(self.urls), "no address is given")

    def _check(self, url: str) -> int:
        """Return the height of a node that is of our chain and not behind."""
        questions: list[Question] = [("eth_chainId", ()), ("eth_blockNumber", ())]
        answers = self._ask_one(url, questions)
        for answer in answers:
            if "error" in answer:
                raise ChainUnavailable(url, f"it answers with {answer['error']['message']!r}")
        found, height = (int(answer["result"], 16) for answer in answers)
        if self.chain_id is None:
            self.chain_id = found
        if found != self.chain_id:
            raise ChainIdChanged(self.chain_id, found)
        if height + MOST_BEHIND < self._height:
            raise ChainUnavailable(url, f"it is at block {height}, behind {self._height}")
        return height

    def _ask_one(self, url: str, questions: Sequence[Question]) -> list[Any]:
        if url not in self._opened:
            is_http = url.startswith("http") and len(self.urls) > 1
            way = HttpTransport(url, ENDPOINT_TIMEOUT_S) if is_http else open_transport(url)
            self._opened[url] = CheckedTransport(url, way)
        return self._opened[url].ask_many(questions)

    def _note_height(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        for (method, _), answer in zip(questions, answers, strict=True):
            if method != "eth_blockNumber" or "error" in answer:
                continue
            height = int(answer["result"], 16)
            if height > self._height:
                self._heights[self.url], self._grown = height, time.monotonic()

    def _look_around(self) -> None:
        """Where no block has come for long, use another node that has more."""
        if len(self.urls) == 1 or time.monotonic() - self._grown < self._stalled_s:
            return
        self._grown = time.monotonic()
        height = self._height
        for url in self.urls:
            if url == self.url:
                continue
            with suppress(ChainError):
                if self._check(url) > height + MOST_BEHIND:
                    self._choose((url,), f"; left {self.url}: it stands at block {height}")
                    return


def _is_fault(question: Question, answer: dict[str, Any]) -> bool:
    """Tell an error of the node from one that is the question's, such as a call that reverts."""
    error = answer.get("error")
    if error is None or error["data"] or "revert" in error["message"]:
        return False
    return error["code"] in _NODE_FAULTS and not _is_too_long(question, error["message"])


def _is_too_long(question: Question, message: str) -> bool:
    """Whether logs are refused because they are too many, so that fewer may be asked for."""
    words = message.lower()
    is_range = bool(_RANGE.search(words)) or "HTTP status" in message
    return question[0] == "eth_getLogs" and is_range and not _RATE.search(words)
