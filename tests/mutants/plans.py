"""Planned stories: terms at their bounds, calls at deadlines, and every payment."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import (
    MAX_BLOCKS,
    MAX_BOND_WEI,
    MAX_REWARD_WEI,
    MIN_BOND_WEI,
    ZERO,
    Pair,
    Terms,
)
from moot.contracts.model.words import hash_commitment, hash_job
from moot.contracts.reasons import LeafMode, Phase
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS
from moot.sim.synthetic.products import Lie, ProductRun, Size, make_task
from tests.lockstep.story import commit, join
from tests.mutants.operators import Table
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, MEMBERS, SALT, VERIFIER, Tape
from tests.referee.stage import NO_TOPS

SIZE = Size(checkpoints=5, checkpoint_every=1, operators=7, rows=1, columns=2, terms=3)
"""Small: these stories are about who joins, meets, loses and is paid."""
RUNS = (None, *(Lie(2, mask=mask) for mask in (1, 2, 4, 8)))
"""The truth, and lies in the same place."""


def tell_plans() -> Iterator[list[Call]]:
    """Yield the stories."""
    yield _tell_terms()
    yield from _tell_times()
    yield from _tell_matches()
    yield from _tell_clocks()
    yield from _tell_payments()
    for lies, is_first in (((0, 1, 1), True), ((0, 0, 1), False)):
        yield _tell_dead_match(lies, is_first=is_first)
    for outcome in (0, 1, 2):
        yield _tell_revival(outcome)
    yield _tell_two_silences()
    yield _tell_released_winner()


def make_table(*lies: Lie | None, size: Size = SIZE, **changes: Any) -> Table:
    """Return a synthetic job with a member for each lie, or honest one."""
    task = make_task(size)
    return Table(task, [ProductRun(task, lie) for lie in lies], **changes)


def _tell_terms() -> list[Call]:
    """Open jobs with each of the terms at its bounds, and beyond."""
    tape, terms = Tape(), make_table(None).terms
    wide = replace(terms, operators=MAX_OPERATORS, steps=MAX_STEPS)
    changes: Sequence[tuple[Terms, str, Sequence[int]]] = (
        (terms, "bond_wei", (MIN_BOND_WEI - 1, MIN_BOND_WEI, MIN_BOND_WEI + 1)),
        (terms, "bond_wei", (MAX_BOND_WEI, MAX_BOND_WEI + 1)),
        (wide, "state_slots", (0, 1, 2, MAX_SLOTS - 1, MAX_SLOTS, MAX_SLOTS + 1)),
        (wide, "batch_slots", (0, 1, MAX_SLOTS, MAX_SLOTS + 1)),
        (terms, "operators", (0, 2, 3, 4, MAX_OPERATORS, MAX_OPERATORS + 1)),
        (terms, "steps", (0, 1, 2, MAX_STEPS - 1, MAX_STEPS, MAX_STEPS + 1)),
        (wide, "checkpoint_every", (0, 1, 2, MAX_STEPS, MAX_STEPS + 1)),
        (terms, "checkpoint_every", (4, 5, 6)),
        *(
            (terms, f"{name}_blocks", (0, 1, 2, MAX_BLOCKS - 1, MAX_BLOCKS, MAX_BLOCKS + 1))
            for name in ("commit", "reveal", "window", "clock")
        ),
        (terms, "increment_blocks", (0, 1, 29, 30, 31)),
    )
    for usual, name, values in changes:
        for value in values:
            changed: dict[str, Any] = {name: value}
            tape.call("open_job", CLIENT, replace(usual, **changed), value_wei=value % 7)
    for mode in (LeafMode.SCALAR, LeafMode.OPERATOR, 2, 3):
        tape.call("open_job", CLIENT, replace(terms, leaf_mode=mode))  # type: ignore[arg-type] # some are absurd
    for value_wei in (MAX_REWARD_WEI, MAX_REWARD_WEI + 1):
        tape.call("open_job", CLIENT, terms, value_wei=value_wei)
    for length in (1, MAX_BLOCKS):
        fast = replace(terms, clock_blocks=length, increment_blocks=length)
        tape.call("open_job", VERIFIER, fast)
    for job_id, job in tape.store.jobs.items():
        for named in (0, hash_job(job) ^ 1, hash_job(job)):
            args = (job_id, SALT, named)
            tape.call("commit", MEMBERS[job_id % 5], *args, value_wei=job.terms.bond_wei)
    return tape.calls


def _tell_times() -> Iterator[list[Call]]:
    """Make each of the calls around the matches in the last block before a deadline, and after."""
    yield _Timetable().tell()
    for revealed in (0, 1, 2):
        yield _tell_settling(revealed)


class _Timetable:
    """A job with five claims, in which every call is tried on time, too early and too late."""

    def __init__(self) -> None:
        table = make_table(*RUNS)
        self.tape, self.terms, self.seats = table.tape, table.terms, list(table.seats)
        self.tops = [run.history.top for run in table.seats.values()]

    def tell(self) -> list[Call]:
        """Make all calls."""
        tape, bond = self.tape, self.terms.bond_wei
        tape.block = 100
        tape.call("commit", self.seats[0], 0, SALT, 0, value_wei=bond)
        tape.call("open_job", CLIENT, self.terms, value_wei=1001)
        self._commit()
        self._reveal()
        self._join()
        self._meet()
        return tape.calls

    def _try_all(self, seat: int, *, value_wei: int | None = None) -> None:
        """Try what a member could do now."""
        tape, top, member = self.tape, self.tops[seat], self.seats[seat]
        value_wei = self.terms.bond_wei if value_wei is None else value_wei
        digest = hash_commitment(tape.store, 0, member, top, SALT)
        tape.call("commit", member, 0, digest, name_job(tape.store, 0), value_wei=value_wei)
        for claim, salt in ((top, ZERO), (top, SALT), (self.tops[0], SALT)):
            tape.call("reveal", member, 0, claim, salt)
        tape.call("start_match", CLIENT, 0, *self.seats[:2], tuple(self.tops[:2]), NO_TOPS)

    def _try_join(self, account: str, top: bytes, *, job_id: int = 0, short_wei: int = 0) -> None:
        value_wei = self.terms.bond_wei - short_wei
        args = (job_id, top, name_job(self.tape.store, job_id))
        self.tape.call("join", account, *args, value_wei=value_wei)

    def _commit(self) -> None:
        tape, bond = self.tape, self.terms.bond_wei
        for value_wei in (0, 1, bond - 1, bond + 1, bond, bond):
            self._try_all(0, value_wei=value_wei)
        self._try_all(4)
        tape.block = tape.store.jobs[0].commit_deadline
        self._try_all(1)
        self._try_join(self.seats[3], self.tops[3])

    def _reveal(self) -> None:
        tape, (first, second, *_), tops = self.tape, self.seats, self.tops
        tape.block += 1
        self._try_all(2)
        tape.call("reveal", first, 1, tops[0], SALT)
        tape.call("reveal", first, 0, tops[0], SALT, value_wei=1)
        tape.call("reveal", first, 0, tops[0], SALT)
        tape.block = tape.store.jobs[0].reveal_deadline
        self._try_join(self.seats[3], tops[3])
        tape.call("reveal", second, 0, tops[1], SALT)
        tape.call("settle", CLIENT, 0, tops[0])
        tape.call("start_match", CLIENT, 0, first, second, (tops[0], tops[1]), NO_TOPS)

    def _join(self) -> None:
        tape, late = self.tape, self.seats[3]
        tape.block += 1
        tape.call("reveal", self.seats[4], 0, self.tops[4], SALT)
        for short_wei in (self.terms.bond_wei, 1, -1):
            self._try_join(late, self.tops[3], short_wei=short_wei)
        self._try_join(self.seats[0], self.tops[0])
        self._try_join(late, self.tops[3], job_id=7)
        for named in (0, name_job(tape.store, 0) ^ 1):
            tape.call("join", late, 0, self.tops[3], named, value_wei=self.terms.bond_wei)
        self._try_join(late, self.tops[3])
        tape.block = tape.store.jobs[0].reveal_deadline + self.terms.window_blocks
        self._try_join(MEMBERS[5], self.tops[2])
        tape.call("settle", CLIENT, 0, self.tops[0])
        tape.block += 1
        for top in (self.tops[2], self.tops[0], SALT):
            self._try_join(MEMBERS[6], top)

    def _meet(self) -> None:
        tape, seats, tops = self.tape, self.seats, self.tops
        tape.call("settle", CLIENT, 0, tops[0])
        for first, second in ((0, 1), (1, 0), (0, 0), (0, 2), (0, 4)):
            right = (tops[first], tops[second])
            for pair in (right[::-1], (ZERO, right[1]), (right[0], ZERO), right):
                tape.call("start_match", CLIENT, 0, seats[first], seats[second], pair, NO_TOPS)
        for job_id in (0, 9):
            tape.call("collect", seats[0], job_id)


def _tell_settling(revealed: int) -> list[Call]:
    """A job in which nobody plays: it is settled as soon as it can be, and not before."""
    table = make_table(None, None)
    tape, terms = table.tape, table.terms
    top = next(iter(table.seats.values())).history.top
    tape.call("open_job", CLIENT, terms, value_wei=1001)
    for member in table.seats:
        commit(tape, member, top, SALT)
    job = tape.store.jobs[0]
    tape.block = job.commit_deadline + 1
    for member in list(table.seats)[:revealed]:
        tape.call("reveal", member, 0, top, SALT)
    for block in (job.reveal_deadline, job.window_end, job.window_end + 1):
        tape.block = block
        tape.note("get_debt", CLIENT, 0, CLIENT)
        for claim in (ZERO, SALT, top):
            tape.call("settle", CLIENT, 0, claim, value_wei=block % 2)
            tape.call("settle", CLIENT, 0, claim)
    _pay_all(table)
    return tape.calls


def _pay_all(table: Table) -> None:
    """Ask what everybody is owed, and collect it, twice."""
    tape = table.tape
    args = (0, SALT, name_job(tape.store, 0))
    tape.call("commit", MEMBERS[7], *args, value_wei=table.terms.bond_wei)
    tape.call("join", MEMBERS[7], *args, value_wei=table.terms.bond_wei)
    late = [account for _, account in tape.store.members if account not in table.seats]
    for account in (*table.seats, *late, CLIENT, VERIFIER):
        tape.note("get_debt", CLIENT, 0, account)
        tape.call("collect", account, 0)
        tape.call("collect", account, 0)
        tape.note("get_debt", CLIENT, 0, account)


def _finish(table: Table) -> None:
    """Let all windows pass, settle and pay."""
    tape = table.tape
    for block in (tape.store.jobs[0].window_end, tape.store.jobs[0].window_end + 1):
        tape.block = max(tape.block, block)
        for run in {run.history.top: run for run in table.seats.values()}.values():
            tape.call("settle", CLIENT, 0, run.history.top)
        tape.call("settle", CLIENT, 0, ZERO)
    _pay_all(table)


def _rule(table: Table, one: str, other: str, outcome: int) -> None:
    """Play a match up to the verifier, and let it rule."""
    board = next((b for p, b in table.boards.items() if (p.first, p.second) == (one, other)), None)
    if board is None:
        table.meet(one, other)
    table.boards = {p: b for p, b in table.boards.items() if (p.first, p.second) == (one, other)}
    table.play(Phase.VERIFIER, is_bent=False)
    (pair, board), *_ = table.boards.items()
    for sender, said in ((CLIENT, outcome), (VERIFIER, 3), (one, 0), (VERIFIER, outcome)):
        table.call("rule", sender, pair, board.position, said)
    table.call("rule", VERIFIER, pair, board.position, outcome)


def _tell_matches() -> Iterator[list[Call]]:
    """Lies in the state, in operators and in folds, with all wrong ways to move."""
    large = Size(checkpoints=300, checkpoint_every=1, operators=40, rows=33, columns=40, terms=70)
    sparse = Size(checkpoints=4, checkpoint_every=21, operators=18, rows=17, columns=4, terms=2)
    single = Size(checkpoints=1, checkpoint_every=9, operators=7, rows=1, columns=2, terms=3)
    long = Size(MAX_STEPS, checkpoint_every=1, operators=7, rows=4098, columns=1 << 10, terms=3)
    wide = Size(4, checkpoint_every=1 << 30, operators=7, rows=1 << 30, columns=1 << 28, terms=3)
    # A chunk more than have places of 32 bits.
    odd = Size(1, checkpoint_every=1, operators=7, rows=1 << 20, columns=(1 << 18) + 1, terms=3)
    for size, one, other in (
        (SIZE, None, Lie(0)),
        (single, Lie(5), None),
        (single, Lie(0), Lie(0, mask=2)),
        (replace(single, checkpoint_every=1), None, Lie(0)),
        (SIZE, None, Lie(2, SIZE.operators)),
        (SIZE, Lie(2, SIZE.operators), None),
        (SIZE, Lie(2, SIZE.operators), Lie(2, SIZE.operators, mask=2)),
        (large, Lie(200, 33, 1000, 50), None),
        (large, None, Lie(298, 2, 700, 69)),
        (large, Lie(200, 33, 1000, 10), None),
        (sparse, Lie(41, 9, 64, 1), None),
        (sparse, None, Lie(83, 3, 3, 0)),
        (sparse, Lie(0, 14, 67, 0), None),
        (long, Lie(MAX_STEPS - 1, 3, 1 << 22, 1), None),
        (wide, Lie(MAX_STEPS - 9, 3, 1 << 57, 1), None),
        (odd, Lie(0, 3, 1 << 38, 1), None),
    ):
        table = make_table(one, other, size=size, verifier=VERIFIER)
        table.begin()
        table.play()
        _finish(table)
        yield table.tape.calls


def _tell_clocks() -> Iterator[list[Call]]:
    """Let the clock run out in every phase, after moves in the last blocks of the time for them."""
    size = Size(checkpoints=4, checkpoint_every=3, operators=7, rows=1, columns=70, terms=3)
    for mode, late in ((LeafMode.SCALAR, 0), (LeafMode.SCALAR, 7), (LeafMode.OPERATOR, 0)):
        for moves in range(16):
            table = make_table(None, Lie(4), size=size, leaf_mode=mode, verifier=VERIFIER)
            table.begin()
            for number in range(moves):
                _move_late(table, late if number % 2 else 0)
            if not table.boards:
                break
            _run_out(table)
            _finish(table)
            yield table.tape.calls


def _move_late(table: Table, late: int) -> None:
    """Make the next move as late as possible, or somewhat before; and once one block too late."""
    for board in table.boards.values():
        if board.position.phase is Phase.VERIFIER:
            return
        name, sender, args = table.find(board)
        table.tape.block = board.position.deadline + 1
        table.try_in_vain(name, sender, *args)
        table.tape.block = max(1, board.position.deadline - late)
        table.call(name, sender, *args)
        return


def _run_out(table: Table) -> None:
    for pair, board in list(table.boards.items()):
        for block in (board.position.deadline, board.position.deadline + 1):
            table.tape.block = block
            table.call("timeout", CLIENT, pair, board.position)
            table.call("rule", VERIFIER, pair, board.position, 3)


def _tell_payments() -> Iterator[list[Call]]:
    """Tournaments in which the verifier rules as planned: who has won whom, and who is left."""
    plans: Sequence[Sequence[tuple[int, int, int]]] = (
        ((0, 1, 0), (0, 2, 0), (0, 3, 1)),
        ((0, 1, 0), (0, 2, 2)),
        ((0, 1, 1), (1, 2, 0), (1, 3, 0), (1, 4, 0)),
        ((0, 1, 2), (2, 3, 2)),
        ((0, 1, 0), (2, 3, 1), (0, 3, 1), (3, 4, 0)),
        ((0, 2, 0), (0, 3, 0), (1, 2, 0), (0, 4, 1), (1, 4, 0)),
    )
    for plan in plans:
        for lies in ((0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (0, 0, 0, 1, 1)):
            yield _tell_tournament(plan, lies)


def _tell_tournament(plan: Sequence[tuple[int, int, int]], lies: Sequence[int]) -> list[Call]:
    chosen = [RUNS[lie] for lie in lies]
    table = make_table(*chosen, leaf_mode=LeafMode.OPERATOR, verifier=VERIFIER)
    tape, seats = table.tape, list(table.seats)
    tops = [run.history.top for run in table.seats.values()]
    table.begin()
    for first, second, outcome in plan:
        one, other = seats[first], seats[second]
        members = tape.store.members
        if tops[first] == tops[second] or not all(members[0, m].is_contender for m in (one, other)):
            continue
        meet = ("start_match", CLIENT, *name_match(tape.store, Pair(0, one, other)))
        if table.call(*meet) is not None:
            # The claims are free again when the window is over, and nobody is left of the others.
            tape.block = tape.store.jobs[0].window_end
            table.call(*meet)
            tape.block += 1
            _show_wrong(table, meet)
            table.call(*meet)
        if any((pair.first, pair.second) == (one, other) for pair in table.boards):
            _rule(table, one, other, outcome)
            _come_late(table)
    _finish(table)
    return tape.calls


def _show_wrong(table: Table, meet: Sequence[Any]) -> None:
    """Begin a match of which one side has not met whom it shows, if anybody."""
    *call, (one, other) = meet
    for wrong in (ZERO, *(claim.top for claim in table.tape.store.claims.values())):
        for rivals in ((wrong, other), (one, wrong)):
            if rivals != (one, other):
                table.try_in_vain(*call, rivals)


def _come_late(table: Table) -> None:
    """Join claims of which nobody is left, in the last block for it or in the next."""
    tape = table.tape
    newcomers = [m for m in MEMBERS[5:] if (0, m) not in tape.store.members]
    gone = [c.top for c in tape.store.claims.values() if not c.contenders and c.meeting]
    if not newcomers or not gone or len(tape.calls) % 2:
        return
    end = max(c.window_end for c in tape.store.claims.values() if c.top == gone[-1])
    tape.block = max(tape.block, end + len(tape.calls) % 3 // 2)
    join(tape, newcomers[0], gone[-1])


def _tell_dead_match(lies: Sequence[int], *, is_first: bool) -> list[Call]:
    """A match waits for the verifier when one of its members is defeated in another one."""
    chosen = [RUNS[lie] for lie in lies]
    table = make_table(*chosen, leaf_mode=LeafMode.OPERATOR, verifier=VERIFIER)
    first, second, third = table.seats
    table.begin()
    if not is_first:
        table.meet(first, third)
    table.play(Phase.VERIFIER, is_bent=False)
    (dead, board), *_ = table.boards.items()
    table.boards = {}
    other = table.meet(*((first, third) if is_first else (second, third)))
    table.boards.pop(dead, None)
    if not is_first:
        name, sender, args = table.find(table.boards[other])
        table.call(name, sender, *args)
    _run_out(table)
    table.tape.block = max(table.tape.block, board.position.deadline + 1)
    table.tape.call("timeout", CLIENT, dead, board.position)
    _finish(table)
    return table.tape.calls


def _tell_two_silences() -> list[Call]:
    """The verifier rules on neither of two matches: who was in them is out, and keeps its bond."""
    changes: dict[str, Any] = {"leaf_mode": LeafMode.OPERATOR, "verifier": VERIFIER}
    table = make_table(*RUNS[:4], **changes)
    seats = list(table.seats)
    table.begin()
    waiting = []
    for first, second in ((0, 1), (2, 3)):
        if first:
            table.meet(seats[first], seats[second])
        table.play(Phase.VERIFIER, is_bent=False)
        waiting.append(table.boards.popitem())
    table.tape.block = max(board.position.deadline for _, board in waiting) + 1
    for pair, board in waiting:
        table.tape.call("timeout", CLIENT, pair, board.position)
    _finish(table)
    return table.tape.calls


def _tell_released_winner() -> list[Call]:
    """A member wins a prize by a ruling, and the verifier is silent about its next match."""
    changes: dict[str, Any] = {"leaf_mode": LeafMode.OPERATOR, "verifier": VERIFIER}
    table = make_table(*(RUNS[lie] for lie in (0, 1, 1)), **changes)
    winner, loser, other = table.seats
    table.begin()
    _rule(table, winner, loser, 0)
    pair = table.meet(winner, other)
    table.play(Phase.VERIFIER, is_bent=False)
    board = table.boards[pair]
    table.tape.block = board.position.deadline + 1
    table.call("timeout", CLIENT, pair, board.position)
    assert table.tape.store.members[0, winner].prizes == 1
    _finish(table)
    return table.tape.calls


def _tell_revival(outcome: int) -> list[Call]:
    """While the window of a meeting is open, a claim of which nobody is left is joined again."""
    changes: dict[str, Any] = {"leaf_mode": LeafMode.OPERATOR, "window_blocks": 500}
    table = make_table(*RUNS[:3], verifier=VERIFIER, **changes)
    tape, (one, other, third), newcomer = table.tape, table.seats, MEMBERS[5]
    tops = [run.history.top for run in table.seats.values()]
    table.begin()
    _rule(table, one, other, outcome)
    gone = 0 if outcome == 1 else 1
    join(tape, newcomer, tops[gone])
    tape.block = tape.store.jobs[0].window_end + 1
    left = (one, other)[1 - gone]
    for first, second in ((left, third), (third, newcomer), (left, newcomer)):
        table.call("start_match", CLIENT, *name_match(tape.store, Pair(0, first, second)))
    _finish(table)
    return tape.calls
