"""The search for a policy that beats an honest provider within a dispute, in Python."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.display import Displayable
from moot.sim.adversary.broken import breaking
from moot.sim.adversary.campaign import Campaign, add_up, open_shop, run_campaign
from moot.sim.adversary.contest import Court, replay, shrink
from moot.sim.adversary.judge import Rule, Verdict
from moot.sim.adversary.search import Found, Part
from moot.sim.adversary.tables import draw_table
from moot.sim.adversary.world import Choice

Progress = Callable[[str, int, int], None]

_MOST_FINDS = 5


@dataclass(frozen=True, slots=True)
class Find:
    """A game that breaks a promise to the honest provider.

    Attributes:
        table: the number of its table.
        choices: the adversary's, without those that are not needed.
        verdict: what was broken.
        calls: all accepted calls of the game, by their blocks since the job was opened.
        contract: what the contract said to them; empty if it takes all, None if it was not asked.
    """

    table: int
    choices: tuple[Choice, ...]
    verdict: Verdict
    calls: tuple[tuple[int, str, str], ...]
    contract: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "table": self.table,
            "broken": [str(rule) for rule in self.verdict.broken],
            "choices": [list(choice) for choice in self.choices],
            "calls": [list(call) for call in self.calls],
            "contract": self.contract,
        }


@dataclass(frozen=True, slots=True)
class Search(Displayable):
    """What a search has found.

    Attributes:
        campaign: what was searched.
        sums: games, paths, calls by kind, matches by ending, and the greatest of each.
        finds: games that break a promise, one for each promise and at most five.
        contested: games that were judged again on the contract, and what it said otherwise.

    Example:
        >>> import moot
        >>> search = moot.search_dispute(games=20)
        >>> search.sums["games"], search.finds
        (20, ())
    """

    campaign: Campaign
    sums: dict[str, Any]
    finds: tuple[Find, ...]
    contested: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot answers dispute-search --json` prints."""
        asked = self.campaign
        return {
            "seed": asked.seed,
            "program": asked.program,
            "size": asked.size,
            "broken_rule": asked.rule,
            **self.sums,
            "finds": [find.to_dict() for find in self.finds],
            "contract": {
                "games": len(self.contested),
                "otherwise": [said for said in self.contested if said],
            },
        }


def search_dispute(
    games: int = 1_000,
    *,
    seed: int = 0,
    program: str = "mlp",
    size: str = "tiny",
    rule: str | None = None,
    processes: int = 1,
    contract: int = 0,
    output: Path | str | None = None,
    progress: Progress = lambda *_: None,
) -> Search:
    """Search for legal moves by which an adversary beats an honest provider.

    Games are played on the model of the referee, at tables that are drawn from the seed: a job of
    a real program, an honest provider as it is shipped, and one to three accounts of an adversary.

    Args:
        games: how many are played; each is judged at its end.
        seed: decides all of them.
        program: an example, or `path/to/file.py:function`.
        size: of an example.
        rule: breaks a rule of the model, to see that it is found; None for the sound model.
        processes: of this machine; the games do not depend on it.
        contract: so many of the games are played again on the contract, call by call.
        output: a file that gets a line for each part, so that the search can be gone on with.
        progress: is called with a name, how much of it is done, and how much there is.

    Raises:
        UsageError: the file is of another search, or there is no such rule.

    Example:
        >>> import moot
        >>> moot.search_dispute(games=20, seed=1).sums["broken"]
        0
    """
    campaign = Campaign(seed, program, size, rule)
    path = Path(output) if output is not None else None
    parts = run_campaign(campaign, games, processes=processes, path=path, progress=progress)
    court = None
    if contract or any(part.found for part in parts):
        run = open_shop(program, size).run(1, 1)
        court = Court(run.task.program.arithmetic)
    finds = tuple(_list_finds(campaign, parts, court))
    drawn = [(part, found) for part in parts for found in part.sampled]
    step = max(1, len(drawn) // contract) if contract else 1
    chosen = drawn[::step][:contract]
    contested = []
    for done, (part, found) in enumerate(chosen):
        progress("on the contract", done, len(chosen))
        assert court is not None, "it was asked for"
        contested.append(_contest(campaign, court, part, found))
    return Search(campaign, add_up(parts), finds, tuple(contested))


def _list_finds(campaign: Campaign, parts: Sequence[Part], court: Court | None) -> Iterator[Find]:
    """Yield the first game of each kind that breaks a promise, without what is not needed."""
    seen: set[tuple[Rule, ...]] = set()
    for part in parts:
        for found in part.found:
            if found.verdict.broken not in seen and len(seen) < _MOST_FINDS:
                find = _shorten(campaign, part, found, court)
                if find.verdict.broken not in seen:
                    yield find
                seen |= {found.verdict.broken, find.verdict.broken}


def _shorten(campaign: Campaign, part: Part, found: Found, court: Court | None) -> Find:
    """Return a game without what is not needed, with what the contract says to it."""
    table = draw_table(open_shop(campaign.program, campaign.size), part.number)
    with breaking(campaign.rule):
        choices = shrink(table, found.choices)
        world, verdict = replay(table, choices, remembers=False, records=True)
    said = None if court is None else _contest(campaign, court, part, found)
    calls = tuple(
        (block - world.opened_block, table.name_account(call.sender), call.name)
        for block, call in world.calls or ()
    )
    return Find(part.number, choices, verdict, calls, said)


def _contest(campaign: Campaign, court: Court, part: Part, found: Found) -> str:
    """Return what the contract says otherwise to a game; nothing if it agrees."""
    shop = open_shop(campaign.program, campaign.size)
    with breaking(campaign.rule):
        return court.contest(shop, part.number, found.choices).refused
