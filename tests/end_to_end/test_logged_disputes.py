"""Disputes about programs in `logged`: whoever lies about a log, or by means of one, loses."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from moot.contracts.model.types import Address, Facts
from moot.contracts.reasons import Ending, LeafMode
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.evidence.rulings import check_log, collect
from moot.offchain.disputes.joining.conditions import Conditions
from moot.offchain.disputes.joining.job_check import _choose_element, agree_on
from moot.offchain.disputes.referee.board import get_place
from moot.offchain.disputes.referee.port import ModelReferee
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import LogError, UnprovenEvidence, UsageError, WrongLog
from moot.offchain.programs.rounding.entries import encode_log, make_log
from moot.offchain.programs.rounding.meaning import is_loggable
from moot.offchain.providers.agreement import make_task, post_logs
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import CHEATS, LOG_CHEATS
from moot.offchain.providers.cheats.log_cheat import add_entry
from moot.offchain.providers.logs import agree_on_logs, read_logs
from moot.offchain.providers.publication import get_task as get_published
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.setting import Setting, check_setting
from moot.offchain.providers.task import Task
from tests.end_to_end.fixtures import Case, Court, check_money, draw_cheat, make_game, run

SEED = 3


@cache
def get_task(program: str) -> tuple[Setting, Task]:
    """Capture a program with the logs of its honest trainer."""
    setting = Setting(
        program=program,
        steps=4,
        checkpoint_every=2,
        arithmetic="logged",
        leaf="operator",
        seed=SEED,
        trust_capture=True,
    )
    check_setting(setting)
    return setting, make_task(setting)


def open_court() -> Court:
    """Return a new model whose programs are in `logged`."""
    addresses = tuple(Address(f"0x{number:040x}") for number in range(1, 8))
    return Court(ModelReferee(dict.fromkeys(addresses, 10**21), arithmetic=LOGGED), addresses)


def play(program: str, cheat: str) -> None:
    """Let a cheat write the logs, and check that it loses to whoever follows them."""
    setting, task = get_task(program)
    setting, task = post_logs(replace(setting, cheat=cheat), task)
    case = Case(task, run(task, Behaviour(), "honest"))
    cheating = draw_cheat(case, setting.cheat, SEED)
    players = {f"{cheat}-1": cheating, "honest-1": case.honest}
    game = make_game(open_court(), case, players, LeafMode.OPERATOR)
    assert list(game.play())
    assert game.get_winners() == ["honest-1"]
    (ended,) = game.ended
    assert ended.ending is Ending.VERIFIER or cheat not in LOG_CHEATS
    if cheat in LOG_CHEATS:
        named = dict(part.split("=") for part in setting.cheat.partition(":")[2].split(","))
        place = get_place(ended.board)
        assert (place.step, place.operator) == (int(named["step"]), int(named["operator"]))
    check_money(game)


def test_a_log_that_steers_loses() -> None:
    """Who obeys an entry outside the band loses to who passes over it; cheats need a log."""
    play("mlp", "steered-log")
    setting, task = get_task("mlp")
    with pytest.raises(UsageError, match="choose --arithmetic logged"):
        post_logs(replace(setting, cheat="other-log"), replace(task, logs=None))


@pytest.mark.slow
@pytest.mark.parametrize("cheat", LOG_CHEATS)
def test_lies_about_logs_lose(cheat: str) -> None:
    """Entries that are missing, surplus, turned, outside the band or another step's lose."""
    play("gpt2", cheat)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", sorted(set(CHEATS) - {"false-flag"}))
def test_other_lies_lose(cheat: str) -> None:
    """So do all other cheats."""
    play("gpt2", cheat)


def test_entries_are_proven() -> None:
    """The verifier takes the entries of the operator and the step in dispute, and no others."""
    _, task = get_task("mlp")
    honest = run(task, Behaviour(), "honest")
    operator = next(i for i, node in enumerate(task.program.nodes) if is_loggable(node))
    terms = make_game(open_court(), Case(task, honest), {}).terms
    place = Facts(step=0, operator=operator)
    evidence, _ = collect(honest, place, 0)
    log = evidence.log
    assert log is not None
    assert check_log(log, terms, place) == log.entries
    others = [
        (replace(log, entries=b"\0\1"), place),
        (replace(log, proof=log.proof[1:]), place),
        (replace(log, slot_proof=log.slot_proof[1:]), place),
        (log, replace(place, step=1)),
        (None, place),
    ]
    for wrong, where in others:
        with pytest.raises(UnprovenEvidence, match="the log"):
            check_log(wrong, terms, where)


def test_published_logs_are_checked(tmp_path: Path) -> None:
    """A provider reads the logs that were published, and refuses others than the data bind."""
    _, task = get_task("mlp")
    store = open_store(str(tmp_path))
    put_task(store, task)
    assert get_published(store, make_terms(task)).logs == task.logs
    files = [agree_on(task, Conditions()).log(step) for step in range(task.steps)]
    bare = replace(task, logs=None)
    assert read_logs(bare, files).logs == task.logs
    operator = next(i for i, node in enumerate(task.program.nodes) if is_loggable(node))
    root = task.commitment.header.root
    other = encode_log(add_entry(task.logs[1], (operator, 0, True)), root, 1)  # type: ignore[index]  # it has logs
    for wrong, match in ((files[0], "it is of step 0"), (None, "missing"), (other, "another one")):
        with pytest.raises(WrongLog, match=match):
            read_logs(bare, [files[0], wrong, *files[2:]])
    with pytest.raises(LogError, match="no slot"):
        read_logs(replace(bare, program=replace(task.program, batch=())), files)


def test_an_entry_is_no_fault_of_the_executor() -> None:
    """Of a job that is checked no scalar operation is tried whose result the log may turn."""
    _, task = get_task("mlp")
    assert task.logs is not None
    operator = next(i for i, node in enumerate(task.program.nodes) if is_loggable(node))
    elements = task.program.nodes[operator].elements
    logs = [make_log((operator, elements - 1 - back, True) for back in range(3)), *task.logs[1:]]
    assert _choose_element(agree_on_logs(task, logs), operator) == elements - 4
    assert _choose_element(replace(task, logs=None), operator) == elements - 1
