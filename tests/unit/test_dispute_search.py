"""The search within a dispute: games are real, judged by the log, and find what is broken."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from moot.command.main import cli
from moot.contracts.model.types import Event
from moot.contracts.reasons import Reason
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.play import game
from moot.offchain.errors import UsageError
from moot.offchain.providers.task import Task
from moot.sim.adversary import campaign as campaigns
from moot.sim.adversary.broken import RULES, breaking
from moot.sim.adversary.campaign import Campaign, add_up, list_parts, run_campaign
from moot.sim.adversary.contest import Court, replay, shrink
from moot.sim.adversary.judge import Rule, judge
from moot.sim.adversary.play import Tally, apply, draw_temper, play_out
from moot.sim.adversary.search import Part, search
from moot.sim.adversary.tables import Shop, Table, draw_table
from moot.sim.adversary.world import World, begin, list_path
from tests.quick import only
from tests.sim_helpers import make_task

VERB = ("answers", "dispute-search")

TABLES = 40
"""Tables that are tried, one after the other, until a broken rule is found."""
GAMES = 250
"""Games of each."""
QUICK = {"early-timeout", "unseen-joiner"}


class _TinyShop(Shop):
    """A shop with a program that needs no torch."""

    def _make_task(self, steps: int, every: int) -> Task:
        return make_task(steps, every)


@cache
def open_shop() -> Shop:
    """Return the shop of all tests."""
    return _TinyShop()


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Let campaigns be about the tiny program."""
    monkeypatch.setattr(campaigns, "open_shop", lambda *_: open_shop())
    return open_shop()


def play(table: Table, seed: int) -> World:
    """Return a drawn game, which is over."""
    random, world = Random(seed), begin(table)
    play_out(world, draw_temper(random), random, Tally(), lambda _: None)
    return world


@pytest.mark.parametrize("number", only({0, 1}, range(12)))
def test_honest_provider_that_remembers_is_the_shipped_one(number: int) -> None:
    """Of each drawn game the provider that computes a move once makes the shipped one's calls."""
    table = draw_table(open_shop(), number)
    for seed in range(8):
        choices = list_path(play(table, seed))
        (fast, verdict), (plain, other) = (
            replay(table, choices, remembers=it, records=True) for it in (True, False)
        )
        assert fast.calls == plain.calls
        assert verdict == other
    assert table.memory.moves


def test_provider_that_remembers_another_move_would_be_seen() -> None:
    """What is remembered is what is played: a move that is forgotten leaves another game."""
    table = draw_table(open_shop(), 1)
    worlds = [play(table, seed) for seed in range(20)]
    choices = list_path(max(worlds, key=lambda world: world.moves))
    kept = replay(table, choices, records=True)[0].calls
    for key in table.memory.moves:
        table.memory.moves[key] = None
    assert replay(table, choices, records=True)[0].calls != kept


def test_fork_goes_its_own_way() -> None:
    """Whatever is played in a fork, the world that it was made of stands as it did."""
    table = draw_table(open_shop(), 2)
    root = begin(table)
    before = (root.block, list(root.log), root.path, dict(root.referee.store.members))
    first = play_fork(root, 1)
    assert (root.block, list(root.log), root.path, dict(root.referee.store.members)) == before
    assert play_fork(root, 1) == first


def play_fork(root: World, seed: int) -> list[Event]:
    """Return what is announced in a game that goes on from a world."""
    random, world = Random(seed), root.fork()
    play_out(world, draw_temper(random), random, Tally(), lambda _: None)
    return list(world.log)


def test_no_game_beats_the_honest_provider() -> None:
    """No drawn or guided game breaks a promise, though matches end in each way that there is."""
    parts = [search(draw_table(open_shop(), number), 0, 60) for number in range(4)]
    sums = add_up(parts)
    assert sums["broken"] == 0
    assert sums["best_wei"] <= 0
    assert {"clock", "scalar"} <= sums["matches"].keys()
    assert sums["paths"] > sums["games"] // 2
    assert sums["made"] < sums["calls"]


def overtake() -> World:
    """Return a game in which a claim meets another before it meets the honest provider's."""
    numbers = (number for number in range(50) if len(draw_table(open_shop(), number).accounts) > 1)
    world, tally = begin(draw_table(open_shop(), next(numbers))), Tally()
    while world.block <= world.job.reveal_deadline:
        world.advance()
    for place, claim in enumerate(("wrong-1", "wrong-2")):
        assert apply(world, ("join", place, claim), tally)
    while not any(call.name == "start_match" for call in world.pending):
        world.advance()
    names = [place for place in world.table.names if place >= 0][:2]
    names.sort(key=lambda place: world.table.ranks[world.table.names[place]])
    assert apply(world, ("start", *names), tally)
    world.release()
    return world


def test_overtaken_start_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lets a claim meet another first takes nothing from who would have met it.

    The honest provider's call is refused then, because that claim has met another since.
    """
    assert not overtake().refused
    reasons = game.OVERTAKEN - {Reason.NO_SUCH_CLAIM}
    monkeypatch.setattr(game, "OVERTAKEN", reasons)
    assert overtake().refused == f"start_match: {Reason.NO_SUCH_CLAIM}"


@pytest.mark.parametrize("rule", only(QUICK, RULES))
def test_broken_rule_is_found(rule: str, shop: Shop) -> None:
    """Each broken rule is found within some games; without what is not needed it breaks it still.

    The sound model is not broken by the same choices.
    """
    del shop
    part = find(rule)
    table = draw_table(open_shop(), part.number)
    with breaking(rule):
        choices = shrink(table, part.found[0].choices)
        assert replay(table, choices)[1].broken
    assert len(choices) <= len(part.found[0].choices)
    assert not replay(table, choices)[1].broken


def find(rule: str) -> Part:
    """Return a part whose last game breaks a promise, if a rule is broken."""
    for number in range(TABLES):
        part = campaigns.play_part(Campaign(rule=rule), number, GAMES, stops=True)
        if part.found:
            return part
    raise AssertionError(f"{rule} is not found in {TABLES * GAMES} games")


@pytest.mark.parametrize(
    ("name", "rule"),
    [("Collected", Rule.BOND), ("Settled", Rule.CLAIM)],
)
def test_judge_reads_the_log(name: str, rule: Rule) -> None:
    """A game whose log lacks a payment or the end is judged as broken; the whole log is not."""
    world = play(draw_table(open_shop(), 3), 3)
    last = world.closed_block
    assert not judge(world, last).broken
    log = list(world.log)
    place = next(n for n, event in enumerate(log) if event.name == name)
    world.referee._logs[0].pop(place)
    assert rule in judge(world, last).broken


def test_judge_knows_the_time() -> None:
    """A job that took longer than the rules say is judged as broken."""
    world = play(draw_table(open_shop(), 3), 3)
    bound = judge(world, world.closed_block).blocks[1]
    assert Rule.TIME in judge(world, world.opened_block + bound + 1).broken


def test_campaign_goes_on_where_it_was(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's parts are not played again, a torn line is; another search's file is refused."""
    del shop
    monkeypatch.setattr(campaigns, "PART_GAMES", 5)
    path = tmp_path / "search.jsonl"
    parts = run_campaign(Campaign(), 12, path=path)
    assert [part.games for part in parts] == [5, 5, 2]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    asked: list[int] = []
    played = campaigns.play_part
    monkeypatch.setattr(
        campaigns, "play_part", lambda *args: asked.append(args[1]) or played(*args)
    )
    again = run_campaign(Campaign(), 12, path=path)
    assert len(asked) == 1
    assert [replace(part, seconds=0) for part in again] == [
        replace(part, seconds=0) for part in parts
    ]
    with pytest.raises(UsageError, match="another search"):
        run_campaign(Campaign(seed=1), 12, path=path)
    path.write_bytes(b"nothing\n")
    with pytest.raises(UsageError, match="no file of a search"):
        run_campaign(Campaign(), 12, path=path)


def test_no_games_are_no_search() -> None:
    """A search of no games, and a rule that is none, are refused."""
    with pytest.raises(UsageError, match="take 1 or more"):
        list_parts(0)
    with pytest.raises(UsageError, match="early-timeout"):
        Campaign(rule="early-timeouts")


@pytest.mark.slow
def test_parts_do_not_depend_on_processes() -> None:
    """Parts of the example are the same in two processes as in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "PART_GAMES", 15)
        parts = [run_campaign(Campaign(), 30, processes=count) for count in (1, 2)]
    assert [replace(it, seconds=0) for it in parts[0]] == [
        replace(it, seconds=0) for it in parts[1]
    ]


@pytest.mark.slow
def test_contract_agrees() -> None:
    """Drawn games end on the contract as on the model, call by call."""
    court = Court(ORDERED)
    for number in range(4):
        table = draw_table(open_shop(), number)
        for seed in range(2):
            choices = list_path(play(table, seed))
            found = court.contest(open_shop(), number, choices)
            assert not found.refused
            assert not found.verdict.broken
            assert len(found.calls) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["early-timeout", "disputed-end", "untied-node"])
def test_contract_refuses_what_a_broken_model_takes(rule: str, shop: Shop) -> None:
    """A game that wins by a broken rule of the model is refused by the contract."""
    part = find(rule)
    with breaking(rule):
        found = Court(ORDERED).contest(shop, part.number, part.found[0].choices)
    assert "refused" in found.refused


def test_options_are_refused_in_a_line() -> None:
    """A rule that is none is a usage error; the list of rules needs no search."""
    listed = CliRunner().invoke(cli, [*VERB, "--break", "list"])
    assert set(RULES) == {line.split()[0] for line in listed.output.splitlines()}
    refused = CliRunner().invoke(cli, [*VERB, "--break", "nothing"])
    assert isinstance(refused.exception, UsageError)


@pytest.mark.slow
def test_command_tells_what_it_found() -> None:
    """The sound model ends with 0; a broken one with 1, the calls, and the contract's refusal."""
    arguments = [*VERB, "--games", "40", "-j", "1", "--json"]
    sound = CliRunner().invoke(cli, [*arguments, "--contract", "1"], standalone_mode=False)
    told = json.loads(sound.output)
    assert sound.return_value == 0
    assert told["games"] == 40
    assert told["contract"] == {"games": 1, "otherwise": []}
    broken = CliRunner().invoke(
        cli, [*arguments, "--break", "early-timeout"], standalone_mode=False
    )
    assert broken.return_value == 1
    find = json.loads(broken.output)["finds"][0]
    assert "timeout" in {name for _, _, name in find["calls"]}
    assert "clock still running" in find["contract"]
