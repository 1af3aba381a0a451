"""Checked mechanism: a user's rule whose answers are validated; a wrong one ends the run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from moot.offchain.errors import UsageError
from moot.sim.economy.limit import Faulted, ask, show
from moot.sim.economy.mechanisms.base import Sold

_MOST_GWEI = 10**18


class Question(NamedTuple):
    """A method of a rule: whether something is an answer to its arguments, and what would be."""

    is_answer: Callable[..., bool]
    wanted: str


def _is_amount(answer: object, *_: object) -> bool:
    return type(answer) is int and 0 <= answer <= _MOST_GWEI


def _is_share(answer: object, *_: object) -> bool:
    return type(answer) in (int, float) and 0 <= answer <= 1  # type: ignore[operator] # a number


def _is_enough(answer: object, seats: int) -> bool:
    return type(answer) is int and answer >= seats


def _is_sold(answer: object, bids: Any, seats: int, value_gwei: int) -> bool:
    """Whether nobody wins, or as many bidders as there are seats, at a price."""
    del value_gwei
    if answer is None:
        return True
    if not isinstance(answer, Sold) or not _is_amount(answer.price_gwei):
        return False
    winners: Any = answer.winners
    if not isinstance(winners, Sequence):
        return False
    whole = all(type(index) is int and 0 <= index < len(bids) for index in winners)
    return whole and len(winners) == len(set(winners)) == seats


_AMOUNT = Question(_is_amount, "a whole number of gwei from 0 to 10^18")
_SHARE = Question(_is_share, "a number from 0 to 1")

QUESTIONS: Mapping[str, Mapping[str, Question]] = {
    "pricing": {
        "count_bidders": Question(_is_enough, "a whole number, the seats or more"),
        "sell": Question(_is_sold, "None, or Sold with a winner for each seat and a price"),
    },
    "matching": {"weigh": _SHARE},
    "bond": {"size": _AMOUNT},
    "audit": {
        "choose_rate": _SHARE,
        "choose_fee": _AMOUNT,
        "choose_forced_rate": _SHARE,
        "choose_jackpot": _AMOUNT,
    },
    "reputation": {"begin": _SHARE, "update": _SHARE},
}
"""What each kind of rule is asked."""

_SWITCHES: Mapping[str, tuple[str, ...]] = {"audit": ("is_public", "is_paid_from_bonds")}


class Checked:
    """A rule that asks a user's, and checks what it answers.

    Args:
        kind: a key of `QUESTIONS`.
        name: the user's `path/to/file.py:Class`, for errors.
        rule: an object of that class.

    Raises:
        UsageError: the class lacks a method; and, when it is asked, that it raises, never answers,
            or answers what is no answer.
    """

    def __init__(self, kind: str, name: str, rule: object) -> None:
        self._name, self._rule = name, rule
        for method, question in QUESTIONS[kind].items():
            if not callable(getattr(rule, method, None)):
                raise UsageError(f"{name} is no {kind} rule: it has no method {method}")
            setattr(self, method, partial(self._ask, method, question))
        for switch in _SWITCHES.get(kind, ()):
            value = getattr(rule, switch, None)
            if type(value) is not bool:
                raise UsageError(f"{name}: {switch} is {value!r}, and not True or False")
            setattr(self, switch, value)

    def _ask(self, method: str, question: Question, *arguments: object, **named: object) -> Any:
        def answer() -> tuple[object, str]:
            given = getattr(self._rule, method)(*arguments, **named)
            is_answer = question.is_answer(given, *arguments)
            return given, "" if is_answer else f"returns {show(given)}, and not {question.wanted}"

        try:
            given, problem = ask(answer)
        except Faulted as fault:
            given, problem = None, str(fault)
        if problem:
            raise UsageError(f"{self._name}: {method} {problem}")
        return given
