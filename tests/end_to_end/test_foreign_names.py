"""Names that others have chosen: none reaches a terminal, a log or a line of JSON as it is."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table

from moot.command import options
from moot.command.narrator import LONGEST
from moot.contracts.deployment import deploy_referee
from moot.offchain.chain import connect
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.joining import job_check
from moot.offchain.disputes.joining.conditions import Conditions
from moot.offchain.disputes.joining.job_check import agree_on, check_job
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import StoreError
from moot.offchain.parties.events import Lines
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.task import Task
from moot.offchain.text import clean
from tests.chain_helpers import open_node
from tests.end_to_end.command import moot
from tests.sim_helpers import make_task

EVIL = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x1b]8;;http://example.org\x1b\\here",
    "first\r\nmoot: second",
    "cut\x00short",
    "\u202egnp.exe",
    "\x9b31m",
    "\x7f\x08\x08",
    "[/bold][link=http://example.org]here[/link]",
    "\u2028\u2029\ufeff",
)
LARGE = "x\x1b[5m" * 2_000
"""As much of a name as a store hands out for each operator; an event may hold megabytes."""
MOST_CHARACTERS = 100_000


def make_evil_task() -> Task:
    """Return a task whose slots and operators have such names."""
    task = make_task()
    program = task.program
    names = tuple(f"{EVIL[n % len(EVIL)]}{n}{LARGE}" for n in range(len(program.nodes)))
    slots = [
        tuple(replace(slot, name=f"{EVIL[n % len(EVIL)]}{n}") for n, slot in enumerate(slots))
        for slots in (program.state, program.batch)
    ]
    lines = tuple(EVIL[n % len(EVIL)] for n in range(len(program.nodes)))
    evil = replace(program, state=slots[0], batch=slots[1], names=names, lines=lines)
    return replace(task, program=evil)


def find_raw(text: str) -> set[str]:
    """Return the characters of an output that are no text, but for the ends of its lines."""
    return {character for character in text if not character.isprintable()} - {"\n"}


@pytest.mark.parametrize("as_json", [False, True])
def test_no_event_has_a_raw_text(*, as_json: bool) -> None:
    """A line is one line, for people and for programs, whoever wrote what it says."""
    stream = io.StringIO()
    tell = Lines(as_json=as_json, stream=stream)
    for evil in (*EVIL, LARGE * 1_000):
        error = StoreError(f"tensor {evil} is damaged")
        tell("failed", f"job 1: {error}", job=1, problem=str(error), parts=[evil, {evil: evil}])
    text = stream.getvalue()
    assert (text.count("\n"), find_raw(text)) == (len(EVIL) + 1, set())
    assert len(text) < MOST_CHARACTERS
    if as_json:
        told = [json.loads(line) for line in text.splitlines()]
        assert not find_raw(repr(told))
        assert [it["job"] for it in told] == [1] * len(told)


def test_no_console_obeys_a_text() -> None:
    """Neither what a terminal obeys nor markup comes of a name, in a line, a cell or a title."""
    stream = io.StringIO()
    with redirect_stdout(stream):
        console = options.make_console()
        for evil in EVIL:
            console.print(f"input {evil}: float32")
            table = Table("name", title=evil)
            table.add_row(evil)
            console.print(table)
    assert find_raw(stream.getvalue()) == set()
    assert "[link=http://example.org]here[/link]" in stream.getvalue()


def test_no_problem_of_a_job_has_a_raw_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding that names an operator or a slot has its name as text, and not too much of it."""
    task = make_evil_task()
    compute = job_check.compute_leaf
    monkeypatch.setattr(job_check, "compute_leaf", lambda *args: compute(*args) ^ 1)
    with connect() as chain:
        contract = deploy_referee(chain, chain.accounts[0])
        referee = ChainReferee(chain, contract, 0)
        terms = make_terms(task, Stakes())
        referee.transact("open_job", terms, sender=chain.accounts[0], value_wei=10**17)
        agreed = agree_on(task, Conditions())
        start = [np.zeros(7, np.float32) for _ in task.initial_state]
        for case in (agreed, replace(agreed, initial_state=start)):
            found = check_job(chain, contract.address, referee.job(0), case)
            (problem,) = [it.problem for it in found if it.problem]
            assert find_raw(problem) | {"\n"} & {*problem} == set()
            assert len(problem) < LONGEST


def test_a_check_prints_no_raw_name(tmp_path: Path) -> None:
    """A stranger's job is checked from the command line, as text and as JSON."""
    task = make_evil_task()
    put_task(open_store(str(tmp_path)), task)
    with open_node("http") as node, connect(node.url) as chain:
        contract = deploy_referee(chain, chain.accounts[0])
        referee, terms = ChainReferee(chain, contract, 0), make_terms(task, Stakes())
        referee.transact("open_job", terms, sender=chain.accounts[0], value_wei=10**17)
        place = (str(tmp_path), "--chain", node.url, "--referee", contract.address)
        length = ("--steps", "4", "--checkpoint-every", "2")
        for more in ((), ("--json",)):
            done = moot("provider", "check", "0", *place, *length, *more)
            assert (done.status, done.stderr) == (0, "")
            assert find_raw(done.stdout) == set()
            assert len(done.stdout) < MOST_CHARACTERS


def test_an_error_that_names_something_is_one_clean_line() -> None:
    """What a command complains of is quoted as text."""
    for evil in EVIL[:3]:
        done = moot("program", "show", evil.replace("\x00", "") + LARGE)
        assert done.status != 0
        assert (done.stderr.count("\n"), find_raw(done.stderr)) == (1, set())
        assert len(done.stderr) < MOST_CHARACTERS


def test_a_text_is_kept_where_it_is_one() -> None:
    """What people write in any script stays, and what is left out is said."""
    assert clean("Ünïcode 数学 +1.5e-3") == "Ünïcode 数学 +1.5e-3"
    assert clean("a" * 200, 10) == "a" * 9 + "…"
    assert clean("\x1b" * 10**6 + "end", 10) == "…"
