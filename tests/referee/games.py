"""Plays very many small games whose true verdicts are known, and checks all their results.

    python -m tests.referee.games --model 600000 --evm 6000 --processes 2

plays so many jobs on the model, and so many on the model and the deployed bytecode in lock-step. A
job has up to five members who tell the truth or lie, and a *game* is one match of a job, played to
its verdict; matches that another one has made pointless are not counted. Everything that is drawn
for a job follows from its number alone: `--first` says where to begin, so that a run can be divided
among machines, and a job that went wrong played again. On standard output comes one line of JSON
for the model and one for the bytecode, of which nothing but the seconds ever changes.

Checked are, against what the members' stories say without any tree: of every game who wins, by what
it is decided, and at which step, operator, element and accumulator; of every job that nobody honest
is beaten and nobody else left beside him, how long it takes, who is paid what to the wei, and that
nothing is left. In all jobs on the bytecode and one of SAMPLE on the model all invariants
are checked after every call, and on the bytecode every answer, event, word and balance.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import cache, lru_cache, partial
from multiprocessing import get_context
from typing import Any

from rich.console import Console

from moot.contracts.model import leaf
from moot.contracts.model.referee import call
from moot.contracts.model.types import NOBODY, Event, Message, Store
from moot.contracts.model.watch import Watcher
from moot.contracts.reasons import Reason, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.table import ARITHMETICS, find_arithmetic
from moot.offchain.commitments import keccak
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.twin import RefereeTwin
from tests.machines.table import NAMES, find_kind
from tests.referee.games_seats import ACCOUNTS, DECK_JOBS, Tally, seat_members
from tests.referee.games_table import play_job

PIECES = {"model": DECK_JOBS, "bytecode": 50}
"""Jobs that a process plays at a time."""
SAMPLE = 128
"""One of so many jobs on the model has all invariants checked after every call."""
_MEMORY = 1 << 17


def remember() -> None:
    """Remember what two pure functions of the model have returned: most games ask them the same."""
    for module, name in ((keccak, "keccak"), (leaf, "decode_node")):
        function = getattr(module, name)
        if not hasattr(function, "cache_info"):
            setattr(module, name, lru_cache(_MEMORY)(function))


@cache
def _get_contract(arithmetic: Arithmetic, machine: str) -> RefereeContract:
    return RefereeContract(ACCOUNTS, arithmetic, find_kind(machine))


def _play_watched(number: int, twin: RefereeTwin) -> Tally:
    """Play a job, after each of whose calls all invariants are checked."""
    _, _, seats = seat_members(number, twin.store.arithmetic)
    honest = frozenset(member for member, seat in seats.items() if seat.is_honest)
    twin.watcher = Watcher({0: honest})

    def send(name: str, message: Message, args: tuple[Any, ...]) -> Sequence[Event]:
        reason = twin.tell(twin.sides[0], name, message, args)
        if reason is not None:
            raise Revert(Reason(reason))
        return twin.events

    return play_job(number, twin.store, send)


def play_model(numbers: Sequence[int], arithmetic: Arithmetic = ORDERED) -> Tally:
    """Play jobs on the model."""
    remember()
    tally = Tally()
    gc.disable()  # next to nothing is in a cycle, and the caches are long to look through
    for number in numbers:
        if number % SAMPLE == 0:
            tally.add(_play_watched(number, RefereeTwin(ACCOUNTS, None, arithmetic)))
            continue
        store = Store(1, NOBODY, arithmetic=arithmetic)

        def send(
            name: str, message: Message, args: tuple[Any, ...], store: Store = store
        ) -> Sequence[Event]:
            return call(store, name, message, *args)

        tally.add(play_job(number, store, send))
    return tally


def play_evm(
    numbers: Sequence[int], arithmetic: Arithmetic = ORDERED, machine: str = NAMES[0]
) -> Tally:
    """Play jobs on the model and the bytecode, of which each call must answer the same.

    In the end every word that is remembered of the job is compared, and all balances.
    """
    remember()
    tally, contract = Tally(), _get_contract(arithmetic, machine)
    for number in numbers:
        mark = contract.machine.snapshot()
        twin = RefereeTwin(ACCOUNTS, contract, arithmetic, is_thorough=False)
        tally.add(_play_watched(number, twin))
        twin.compare_job(0)
        twin.compare()
        contract.machine.revert(mark)
    return tally


def split(first: int, jobs: int, piece: int) -> Iterator[range]:
    """Yield the numbers of so many jobs, in pieces."""
    for start in range(first, first + jobs, piece):
        yield range(start, min(start + piece, first + jobs))


def describe(name: str, first: int, tally: Tally, seconds: float) -> str:
    """Return the line that says what has come of a run."""
    said = {each.name: getattr(tally, each.name) for each in fields(tally)}
    said |= {"fingerprint": f"{tally.fingerprint % (1 << 64):016x}", "wrong": tally.wrong.total()}
    said |= {"wrong_where": tally.wrong, "seconds": round(seconds)}
    ordered = {k: dict(sorted(v.items())) if isinstance(v, Counter) else v for k, v in said.items()}
    return json.dumps({"on": name, "first": first, **ordered})


def run(
    name: str,
    play: Callable[[Sequence[int]], Tally],
    numbers: tuple[int, int],
    pool: ProcessPoolExecutor,
) -> Tally:
    """Play jobs in several processes, and say now and then how far they are."""
    console, begun = Console(stderr=True), time.monotonic()
    tally, said = Tally(), begun
    for piece in pool.map(play, split(*numbers, PIECES[name])):
        tally.add(piece)
        now = time.monotonic()
        if now > said + 10 or tally.jobs == numbers[1]:
            said = now
            rate = tally.games / (now - begun)
            console.print(f"{name}: {tally.jobs} of {numbers[1]} jobs, {rate:.0f} games a second")
    return tally


def main(arguments: Sequence[str]) -> int:
    """Play the jobs that were asked for; 1 if anything was wrong or left."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee.games")
    parser.add_argument("--model", type=int, default=0, help="jobs on the model")
    parser.add_argument("--evm", type=int, default=0, help="jobs on model and bytecode")
    parser.add_argument("--first", type=int, default=0, help="number of the first job")
    parser.add_argument("--machine", choices=NAMES, default=NAMES[0], help="where contracts are")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    ending = [name for name, it in ARITHMETICS.items() if it.ends_on_chain]
    parser.add_argument("--arithmetic", choices=ending, default="ordered")
    options = parser.parse_args(arguments)
    arithmetic = find_arithmetic(options.arithmetic)
    is_sound = True
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        on_evm = partial(play_evm, machine=options.machine)
        asked = (("model", play_model, options.model), ("bytecode", on_evm, options.evm))
        for name, play, jobs in asked:
            if jobs:
                begun = time.monotonic()
                playing = partial(play, arithmetic=arithmetic)
                tally = run(name, playing, (options.first, jobs), pool)
                line = describe(name, options.first, tally, time.monotonic() - begun)
                sys.stdout.write(line + "\n")
                is_sound &= not tally.wrong and tally.locked_wei == 0
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
