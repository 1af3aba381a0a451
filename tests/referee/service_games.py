"""Plays very many drawn games of a service, whose results are foretold without the model.

    python -m tests.referee.service_games --model 100000 --evm 10000 --processes 2

plays so many games on the models, and so many on models and bytecode in lock-step. In a *game* two
providers stake, sign receipts, honest ones and others, publish and are challenged; clients pay by
vouchers; challengers are right, wrong, copied, late or the provider's own. Everything that is drawn
for a game follows from its number alone. `service_truth.py` says of every call whether it has to be
refused, and of every wallet in the end what is in it, to the wei; the winner of a match is who has
told the truth where both first differ, or whoever has not been silent. In one of SAMPLE games all
invariants are checked after every call, and in those on the bytecode every answer and event is
compared, and every word in the end.
"""

import argparse
import gc
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

from moot.contracts.model.bonds import Batch
from moot.contracts.model.receipts import Receipt
from moot.contracts.model.types import NOBODY, Address
from moot.contracts.reasons import Reason
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.disputes.referee.terms import make_terms
from moot.sim.synthetic.calls import find_call
from moot.sim.synthetic.products import Lie, ProductRun
from tests.machines.base import BALANCE_WEI
from tests.machines.table import NAMES, find_kind
from tests.referee.service_truth import (
    BURNER,
    DAY,
    LEAST_WEI,
    WEEK,
    Facts,
    Story,
    Truth,
    do_contradict,
)
from tests.referee.services import (
    ACCOUNTS,
    ANSWER,
    CHALLENGERS,
    CLIENT,
    HISTORY,
    OTHER,
    PROVIDER,
    RIVAL,
    SLOTS,
    STATE,
    STRANGER,
    TRUTH,
    ChallengeContract,
    Services,
    make_receipt,
    sign,
)
from tests.referee.stage import SINGLE, get_run, get_task

PIECES = {"model": 500, "bytecode": 25}
"""Games that a process plays at a time."""
SAMPLE = 64
"""One of so many games on the model has all invariants checked after every call."""
STORIES = tuple(
    map(
        Story,
        (
            None,
            Lie(step=0),
            Lie(step=0, mask=2),
            Lie(step=1, operator=2, element=1, term=1),
            Lie(step=2, operator=6, element=1),
        ),
    )
)
FLAWS = ("answer", "unsound", "signer", "chain", "twin", "total", "early", "gap")
PROVIDERS, CLIENTS = (PROVIDER, RIVAL), (CLIENT, STRANGER)
CALLS = 24


@dataclass
class Signed:
    """A receipt that somebody has, with its signature and what is true of it."""

    receipt: Receipt
    signature: bytes
    facts: Facts
    name: Digest


@dataclass
class Running:
    """A challenge that goes on: who claims what, and who is silent."""

    signed: Signed
    job_id: int
    bond_wei: int
    challenger: Address
    top: Digest
    stories: tuple[Story | None, Story | None]


@dataclass
class Game:
    """One game, drawn from its number.

    Args:
        number: the number.
        both: the service.
    """

    number: int
    both: Services
    truth: Truth = field(default_factory=Truth)
    books: dict[Address, list[Signed]] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin with books that are empty."""
        self.rng = random.Random(self.number)
        self.books = {provider: [] for provider in PROVIDERS}
        self.hidden: list[Signed] = []

    def play(self) -> Counter[str]:
        """Play it to its end, and check every wallet."""
        rng = self.rng
        for provider in PROVIDERS:
            self._stake(provider, rng.choice((1, 2, 3)) * LEAST_WEI + rng.choice((0, 0, 1, 7)))
        acts = (
            [self.issue] * 5
            + [self.challenge] * 5
            + [self.end] * 3
            + [self.stake, self.unstake, self.unstake, self.take, self.take]
            + [self.fund, self.defund, self.take_funds, self.redeem, self.redeem]
            + [self.publish, self.refute, self.contradict, self.unlist, self.wait]
        )
        for _ in range(CALLS):
            rng.choice(acts)()
        self._finish()
        return self.seen

    def _make(
        self, name: str, sender: Address, args: tuple[Any, ...], value_wei: int, due: set[Reason]
    ) -> bool:
        """Make a call that has to be refused for one of some reasons, or taken if there is none."""
        reason = self.both.call(name, sender, *args, value_wei=value_wei)
        is_right = reason in {str(it) for it in due} if due else reason is None
        assert is_right, (self.number, name, reason, due)
        self.seen[f"{name}: {reason or 'ok'}"] += 1
        return reason is None

    # Money.

    def _stake(self, provider: Address, wei: int) -> None:
        due = {Reason.AT_FAULT} if provider in self.truth.guilty else set[Reason]()
        due |= {Reason.NO_AMOUNT} if wei == 0 else set()
        if self._make("stake", provider, (), wei, due):
            self.truth.bring(self.truth.bonds[provider], provider, wei)

    def stake(self) -> None:
        """Let somebody stake."""
        self._stake(self.rng.choice(PROVIDERS), self.rng.choice((0, 1, LEAST_WEI, 3 * LEAST_WEI)))

    def unstake(self) -> None:
        """Let a part of a bond leave, or more than there is."""
        provider = self.rng.choice(PROVIDERS)
        pile = self.truth.bonds[provider]
        standing = self.truth.count(pile, standing=True)
        wei = self.rng.choice((0, 1, standing // 2, standing, standing + 1))
        if self._make("unstake", provider, (wei,), 0, self.truth.refuse_leaving(pile, wei)):
            self.truth.call_back(pile, wei, self.both.block + WEEK)

    def take(self) -> None:
        """Let a provider take what has left, or has not."""
        provider = self.rng.choice(PROVIDERS)
        pile = self.truth.bonds[provider]
        due = self.truth.refuse_taking(pile, self.both.block)
        if self._make("take_stake", provider, (), 0, due):
            self.truth.take_left(pile, provider)

    def _draw_balance(self) -> tuple[Address, Address]:
        return self.rng.choice(CLIENTS), self.rng.choice(PROVIDERS)

    def fund(self) -> None:
        """Let a client bring money."""
        place, wei = self._draw_balance(), self.rng.choice((0, 1, 50, 1000))
        due = {Reason.NO_AMOUNT} if wei == 0 else set[Reason]()
        if self._make("fund", place[0], (place[1],), wei, due):
            self.truth.bring(self.truth.balances[place], place[0], wei)

    def defund(self) -> None:
        """Let a part of a balance leave."""
        place = self._draw_balance()
        pile = self.truth.balances[place]
        wei = self.rng.choice((0, 1, self.truth.count(pile, standing=True), 2000))
        due = self.truth.refuse_leaving(pile, wei)
        if self._make("defund", place[0], (place[1], wei), 0, due):
            self.truth.call_back(pile, wei, self.both.block + DAY)

    def take_funds(self) -> None:
        """Let a client take what has left."""
        place = self._draw_balance()
        pile = self.truth.balances[place]
        due = self.truth.refuse_taking(pile, self.both.block)
        if self._make("take_funds", place[0], (place[1],), 0, due):
            self.truth.take_left(pile, place[0])

    def redeem(self) -> None:
        """Let a provider redeem a voucher, which may be an old one, or another's."""
        place, rng = self._draw_balance(), self.rng
        paid, pile = self.truth.paid[place], self.truth.balances[place]
        total = max(0, paid + rng.choice((-1, 0, 1, 30, 5000)))
        signer = rng.choice((place[0],) * 7 + (CHALLENGERS[0],))
        wei = min(total - paid, self.truth.count(pile))
        due = set() if signer == place[0] else {Reason.BAD_SIGNATURE}
        due |= {Reason.NOTHING_DUE} if wei <= 0 else set()
        voucher = self.both.make_voucher(*place, total)
        args = (place[0], total, sign(voucher, signer))
        if self._make("redeem", place[1], args, 0, due):
            self.truth.take_away(pile, wei)
            self.truth.paid[place] += wei
            self.truth.wallets[place[1]] += wei

    # Receipts.

    def issue(self) -> None:
        """Let a provider sign its next receipt, or one that it should not have signed."""
        rng, provider = self.rng, self.rng.choice(PROVIDERS)
        book = self.books[provider]
        flaw = rng.choice(FLAWS) if rng.random() < 0.3 else ""
        last = book[-1].facts if book else None
        number = last.number + 1 if last else 0
        total = last.total if last else 0
        if flaw == "twin" and book:
            number, total = last.number, total - last.stake  # type: ignore[union-attr]
        stake = rng.choice((0, 1, LEAST_WEI, LEAST_WEI + 1, 2 * LEAST_WEI))
        total += stake + rng.choice((1, LEAST_WEI)) * (flaw == "total")
        number += rng.choice((1, 2)) * (flaw == "gap")
        issued = self.both.block
        ended = [it.facts.total for it in book if it.facts.last < issued]
        released = max(ended, default=0) if rng.random() < 0.5 else 0
        released = min(released, total - stake)
        if flaw == "early" and book:
            released = min(total - stake, max(it.facts.total for it in book))
        span = rng.choice((0, 5, 60, 900, WEEK, WEEK))
        story = rng.choice((None, *STORIES, *STORIES))
        is_sound = flaw != "unsound"
        facts = Facts(
            provider,
            number,
            stake,
            total,
            released,
            issued,
            issued + span,
            is_signed=flaw not in {"signer", "chain"},
            is_sound=is_sound,
            has_answer=flaw != "answer",
            story=None if flaw == "answer" else story,
        )
        signed = self._sign(facts, flaw)
        keeps = flaw in {"", "answer"} or (flaw == "unsound")
        (book if keeps and is_sound else self.hidden).append(signed)

    def _sign(self, facts: Facts, flaw: str) -> Signed:
        spoiled: dict[str, Any] = {}
        if not facts.is_sound:
            spoiled = self.rng.choice(
                (
                    {"clock_blocks": 0},
                    {"last_block": facts.issued + WEEK + 1},
                    {"released_wei": facts.total - facts.stake + 1},
                    {"answer_slot": 3},
                )
            )
        fields = {
            "provider": facts.provider,
            "client": self.rng.choice(CLIENTS),
            "number": facts.number,
            "issued_block": facts.issued,
            "last_block": facts.last,
            "stake_wei": facts.stake,
            "total_wei": facts.total,
            "released_wei": facts.released,
            "answer": ANSWER if facts.has_answer else OTHER,
            "price_wei": self.rng.randrange(1 << 60),
        }
        played = _get_played(facts.story) if facts.story else {}
        receipt = make_receipt(**(fields | played | spoiled))
        domain = self.both.model.domain
        if flaw == "chain":
            domain = replace(domain, chain_id=domain.chain_id + 1)
        signer = CLIENT if flaw == "signer" else facts.provider
        name = receipt.hash(self.both.model.domain)
        facts = replace(
            facts, released=receipt.released_wei, last=receipt.last_block
        )  # as it says, sound or not
        return Signed(receipt, sign(receipt.hash(domain), signer), facts, name)

    def _draw_receipt(self, *, is_shown: bool = False) -> Signed | None:
        shown = [it for book in self.books.values() for it in book]
        found = shown if is_shown else shown + self.hidden
        return self.rng.choice(found) if found else None

    def _announce(self, sender: Address, first: Digest, second: Digest) -> set[Reason]:
        """Announce a call, mostly; return why it is refused if not."""
        place = self.rng.random()
        if place < 0.04:
            return {Reason.NOT_ANNOUNCED}
        author = CHALLENGERS[3] if place < 0.06 else sender
        salt = self.rng.randbytes(32)
        self.salt = salt
        self.both.announce(author, first, second, salt)
        if author != sender:
            return {Reason.NOT_ANNOUNCED}
        if place < 0.09:
            self.both.block -= 1
            return {Reason.NOT_ANNOUNCED}
        return set()

    def challenge(self) -> None:
        """Let somebody challenge a receipt, or its own, with the truth or not, in time or not."""
        signed = self._draw_receipt()
        if signed is None:
            return
        rng, truth, facts = self.rng, self.truth, signed.facts
        by = rng.choice((*CHALLENGERS[:3], *CHALLENGERS[:3], STRANGER, facts.provider))
        story = rng.choice(STORIES) if facts.story else None
        top = _get_run(story).history.top if story else rng.choice((TRUTH,) * 9 + (HISTORY.top,))
        self.salt = bytes(32)
        due = self._announce(by, signed.name, top)
        wanted = max(LEAST_WEI, facts.stake)
        value = wanted + rng.choice((0,) * 12 + (1, -1))
        due |= {Reason.WRONG_VALUE} if value != wanted else set()
        due |= truth.refuse_challenge(
            signed.name, facts, self.both.block, is_other=top != signed.receipt.history, by=by
        )
        args = (signed.receipt, signed.signature, top, self.salt)
        if not self._make("challenge", by, args, value, due):
            return
        bond = truth.get_match_bond(facts)
        truth.take_away(truth.bonds[facts.provider], bond)
        truth.wallets[by] -= bond
        truth.open.add(signed.name)
        stories = [facts.story, story]
        for side in (0, 1):
            if rng.random() < 0.4:
                stories[side] = None
        job_id = len(self.both.store.jobs) - 1
        self.running.append(Running(signed, job_id, bond, by, top, (stories[0], stories[1])))

    def refute(self) -> None:
        """Let somebody say that a receipt has another answer, or prove it badly."""
        signed = self._draw_receipt()
        if signed is None or signed.facts.story is not None:
            return
        rng, facts, reporter = self.rng, signed.facts, self.rng.choice(CHALLENGERS[:3])
        self.salt = bytes(32)
        due = self._announce(reporter, signed.name, ANSWER)
        state = rng.choice((STATE,) * 6 + (OTHER,))
        due |= {Reason.UNPROVEN_FAULT} if state != STATE else set()
        due |= {Reason.NO_FAULT} if facts.has_answer else set()
        due |= {Reason.ABSURD_RECEIPT} if not facts.is_sound else set()
        due |= {Reason.BAD_SIGNATURE} if not facts.is_signed else set()
        due |= {Reason.AT_FAULT} if facts.provider in self.truth.guilty else set()
        proofs = (tuple(HISTORY.proof(1)), ANSWER, tuple(SLOTS.proof(1)))
        args = (signed.receipt, signed.signature, state, *proofs, self.salt)
        if self._make("refute_answer", reporter, args, 0, due):
            self.truth.punish(facts.provider, reporter)

    def contradict(self) -> None:
        """Let somebody show two receipts, in either order, of whomever."""
        one, other = self._draw_receipt(), self._draw_receipt()
        if one is None or other is None:
            return
        rng, reporter = self.rng, self.rng.choice((*CHALLENGERS[:3], PROVIDER))
        if one.facts.number > other.facts.number and rng.random() < 0.9:
            one, other = other, one
        self.salt = bytes(32)
        due = self._announce(reporter, one.name, other.name)
        is_fault = (
            one.facts.provider == other.facts.provider
            and one.name != other.name
            and one.facts.number <= other.facts.number
            and do_contradict(one.facts, other.facts)
        )
        due |= {Reason.NO_FAULT} if not is_fault else set()
        are_signed = one.facts.is_signed and other.facts.is_signed
        due |= {Reason.BAD_SIGNATURE} if not are_signed else set()
        due |= {Reason.AT_FAULT} if one.facts.provider in self.truth.guilty else set()
        shown = (one.receipt, other.receipt), one.signature, other.signature
        if self._make("prove_conflict", reporter, (*shown, self.salt), 0, due):
            self.truth.punish(one.facts.provider, reporter)

    def publish(self) -> None:
        """Let a provider publish what it has signed and has not published, or other numbers."""
        rng, provider = self.rng, self.rng.choice(PROVIDERS)
        names = {it.facts.number: it.name for it in self.books[provider]}
        done = len(self.truth.listed[provider])
        count = rng.choice((1, 1, 2, 3, 0))
        first = done + rng.choice((0,) * 7 + (1, -1))
        digests = [names.get(n, n.to_bytes(32, "big")) for n in range(max(first, 0), first + count)]
        first = max(first, 0)
        count = len(digests)
        root = Tree(Tag.RECEIPT_NODE, digests).top if digests else TRUTH
        due = {Reason.NOT_NEXT} if first != done else set[Reason]()
        due |= {Reason.ABSURD_BATCH} if count == 0 else set()
        if self._make("publish", provider, (first, count, root), 0, due):
            self.truth.listed[provider] += digests
            self.truth.batches[provider].append((first, count))

    def unlist(self) -> None:
        """Let somebody show what was published at a receipt's number, or beside it."""
        signed = self._draw_receipt()
        if signed is None or not self.truth.batches[signed.facts.provider]:
            return
        rng, facts = self.rng, signed.facts
        first, count = rng.choice(self.truth.batches[facts.provider])
        digests = self.truth.listed[facts.provider][first : first + count]
        place = facts.number - first
        shown = place if 0 <= place < count else rng.randrange(count)
        if rng.random() < 0.1:
            shown = rng.randrange(count)
        tree = Tree(Tag.RECEIPT_NODE, list(map(bytes, digests)))  # type: ignore[call-overload]
        listed, reporter = tree.node(0, shown), rng.choice(CHALLENGERS[:3])
        self.salt = bytes(32)
        due = self._announce(reporter, signed.name, listed)
        batch = Batch(first, count + (rng.random() < 0.05), tree.top)
        due |= {Reason.NO_SUCH_BATCH} if batch.count != count else set()
        is_other = listed != signed.name and place >= 0
        due |= {Reason.NO_FAULT} if not is_other else set()
        due |= {Reason.UNPROVEN_FAULT} if shown != place else set()
        due |= {Reason.BAD_SIGNATURE} if not facts.is_signed else set()
        due |= {Reason.AT_FAULT} if facts.provider in self.truth.guilty else set()
        args = (signed.receipt, signed.signature, batch, listed, tuple(tree.proof(shown)))
        if self._make("prove_unlisted", reporter, (*args, self.salt), 0, due):
            self.truth.punish(facts.provider, reporter)

    def wait(self) -> None:
        """Let time pass."""
        self.both.block += self.rng.choice((1, 1, 5, 5, 5, 40, 40, 300, DAY, WEEK // 2, WEEK + 1))

    # Matches.

    def end(self) -> None:
        """Play a challenge to its end, and let everybody collect."""
        if self.running:
            self._end(self.running.pop(self.rng.randrange(len(self.running))))

    def _end(self, it: Running) -> None:
        truth, both = self.truth, self.both
        provider = it.signed.facts.provider
        members = (provider, it.challenger)
        winner = self._play(it)
        tops = (it.signed.receipt.history, it.top)
        loser_bonds = it.bond_wei if winner is not None else 2 * it.bond_wei
        top = tops[winner] if winner is not None else TRUTH
        assert both.settle(top, it.job_id) is None
        for side, member in enumerate(members):
            reason = both.play("collect", member, it.job_id)
            assert (reason is None) == (side == winner), (self.number, reason)
        prize = it.bond_wei // 2 if winner is not None else 0
        if winner is not None:
            truth.wallets[members[winner]] += it.bond_wei + prize
        truth.wallets[BURNER] += loser_bonds - prize
        truth.open.discard(it.signed.name)
        if winner != 0:
            truth.lost.add(it.signed.name)
        self.seen[f"match won by {winner}"] += 1

    def _play(self, it: Running) -> int | None:
        """Play a match; return which side has to win, and has."""
        both, members = self.both, (it.signed.facts.provider, it.challenger)
        expected = self._foretell(it)
        while True:
            pair, board = both.look(it.job_id)
            side = members.index((pair.first, pair.second)[board.position.mover])
            story = it.stories[side]
            if story is None or self.both.block > board.position.deadline:
                both.block = max(both.block, board.position.deadline + 1)
                assert both.play("timeout", STRANGER, pair, board.position) is None
                winner: int | None = 1 - side
                break
            terms = both.store.jobs[it.job_id].terms
            made = find_call({members[side]: _get_run(story)}, terms, board)
            assert both.play(made.name, made.sender, *made.args) is None
            if pair not in both.store.matches:
                outcome = both.log[it.job_id][-1].args[3]
                players = (pair.first, pair.second)
                winner = members.index(players[int(str(int(outcome)))]) if outcome < 2 else None  # type: ignore[operator, call-overload]
                break
        assert winner == expected, (self.number, winner, expected)
        return winner

    def _foretell(self, it: Running) -> int | None:
        """Say who wins: who speaks if the other does not, or who tells the truth."""
        members = (it.signed.facts.provider, it.challenger)
        first = 0 if int(members[0], 16) < int(members[1], 16) else 1
        one, other = it.stories
        terms = self.both.store.jobs[it.job_id]
        if self.both.block > terms.opened_block + terms.terms.clock_blocks:
            return 1 - first  # nobody has moved in time
        if one is None or other is None:
            speaks = (one is not None, other is not None)
            if speaks == (False, False):
                return 1 - first
            return speaks.index(True)
        told = one.tell(other)
        return told if told < 2 else None

    def _finish(self) -> None:
        """Let everything end, everybody take what is his, and look into every wallet."""
        while self.running:
            self._end(self.running.pop())
        truth, both = self.truth, self.both
        for provider in PROVIDERS:
            pile = truth.bonds[provider]
            if standing := truth.count(pile, standing=True):
                assert both.call("unstake", provider, standing) is None
                truth.call_back(pile, standing, both.block + WEEK)
        for (client, provider), pile in truth.balances.items():
            if standing := truth.count(pile, standing=True):
                assert both.call("defund", client, provider, standing) is None
                truth.call_back(pile, standing, both.block + DAY)
        both.block += WEEK + 1
        for provider in PROVIDERS:
            self._make(
                "take_stake",
                provider,
                (),
                0,
                truth.refuse_taking(truth.bonds[provider], both.block),
            )
            truth.take_left(truth.bonds[provider], provider)
        for (client, provider), pile in truth.balances.items():
            due = truth.refuse_taking(pile, both.block)
            self._make("take_funds", client, (provider,), 0, due)
            truth.take_left(pile, client)
        assert both.model.balance_wei == both.store.balance_wei == 0
        for account in (*ACCOUNTS, NOBODY):
            gained = truth.wallets[BURNER if account == NOBODY else account]
            assert both.balances[account] - BALANCE_WEI == gained, (self.number, account)


@cache
def _get_run(story: Story) -> ProductRun:
    return get_run(SINGLE, story.lie)


@cache
def _get_played(story: Story) -> dict[str, Any]:
    """Return the terms of a receipt that can be played, and what it claims."""
    it = make_terms(get_task(SINGLE))
    names = ("layout", "program_top", "start_root", "data_top", "operators", "state_slots")
    names = (*names, "batch_slots", "steps", "checkpoint_every")  # type: ignore[assignment]
    return {name: getattr(it, name) for name in names} | {
        "history": _get_run(story).history.top,
        "clock_blocks": 10,
    }


def play_model(numbers: Sequence[int]) -> Counter[str]:
    """Play games on the models."""
    seen = Counter[str]()
    gc.disable()
    for number in numbers:
        both = Services(None, is_thorough=number % SAMPLE == 0)
        seen += Game(number, both).play()
    return seen


@cache
def _get_contract(machine: str) -> ChallengeContract:
    return ChallengeContract(ACCOUNTS, kind=find_kind(machine))


def play_evm(numbers: Sequence[int], machine: str = NAMES[0]) -> Counter[str]:
    """Play games on models and bytecode; in the end every word that is remembered is compared."""
    seen, contract = Counter[str](), _get_contract(machine)
    for number in numbers:
        mark = contract.machine.snapshot()
        both = Services(contract, is_thorough=False)
        seen += Game(number, both).play()
        both.compare()
        contract.machine.revert(mark)
    return seen


def _split(first: int, games: int, piece: int) -> Iterator[range]:
    for start in range(first, first + games, piece):
        yield range(start, min(start + piece, first + games))


def main(arguments: Sequence[str]) -> int:
    """Play the games that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee.service_games")
    parser.add_argument("--model", type=int, default=0, help="games on the models")
    parser.add_argument("--evm", type=int, default=0, help="games on models and bytecode")
    parser.add_argument("--first", type=int, default=0, help="number of the first game")
    parser.add_argument("--machine", choices=NAMES, default=NAMES[0], help="where contracts are")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        on_evm = partial(play_evm, machine=options.machine)
        asked = (("model", play_model, options.model), ("bytecode", on_evm, options.evm))
        for name, play, games in asked:
            begun, seen = time.monotonic(), Counter[str]()
            for found in pool.map(play, _split(options.first, games, PIECES[name])):
                seen += found
            if games:
                said = {"on": name, "games": games, "calls": sum(seen.values())}
                said |= {
                    "seconds": round(time.monotonic() - begun),
                    "seen": dict(sorted(seen.items())),
                }
                sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
