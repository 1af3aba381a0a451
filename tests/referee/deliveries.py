"""The model of premiums for results beside the contract in a bare EVM, and a job to be won."""

from dataclasses import replace
from typing import Any

import numpy as np

from moot.contracts.deployment import deploy_delivery
from moot.contracts.model.abi import unpack_premium
from moot.contracts.model.answers import MIN_DEPOSIT_WEI, Subject, hash_subject
from moot.contracts.model.delivery import Deliveries as Vault
from moot.contracts.model.delivery import call, make_result
from moot.contracts.model.types import ZERO, Address
from moot.contracts.reasons import DemandStatus, Part, PremiumStatus
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, TensorTree
from moot.offchain.commitments.tree import Tree, hash_root
from moot.offchain.disputes.availability.delivery import Delivery, find_result, register
from moot.offchain.disputes.availability.demands import Place, TensorProof, list_demand
from moot.offchain.disputes.play.players import Move
from moot.offchain.providers.task import Task
from tests.lockstep.story import assemble, join
from tests.referee.promises import TASK, prove_tensor
from tests.referee.stage import CLIENT, PROVIDERS
from tests.referee.vaults import Vaults

PREMIUM_WEI, DEPOSIT_WEI = 10**18 + 1, MIN_DEPOSIT_WEI + 1
ANSWER_BLOCKS, WINDOW_BLOCKS = 6, 20
SHARERS, LATE, LIAR, STRANGER = PROVIDERS[:3], PROVIDERS[3], PROVIDERS[4], PROVIDERS[5]
"""Those who claim what wins; one that joins that claim late; one that never reveals its claim."""
RESULT: tuple[Array, ...] = (
    np.arange(70, 140, dtype=np.float32),
    np.zeros((0, 3), np.float32),
    np.arange(40 * 32, dtype=np.int64),
)
"""Two chunks, of which the last is ragged; no elements; forty chunks."""
ROOTS = [TensorTree(it).root for it in RESULT]
STATE_ROOT = hash_root(Tag.STATE_ROOT, 3, Tree(Tag.STATE_NODE, ROOTS).top)
HISTORY = Tree(Tag.HISTORY_NODE, [b"\1" * 32, b"\2" * 32, STATE_ROOT])
PLACES: tuple[Place, ...] = ((1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 2, 0), (1, 2, 1), (1, 2, 39))
"""The first and the last chunks of every tensor."""
BEYOND: tuple[Place, ...] = ((1, 0, 2), (1, 0, 9), (1, 1, 1), (1, 2, 40))
"""Chunks beyond the end of every tensor."""


def find(place: Place) -> Move:
    """Return the call that shows a part of the result."""
    return find_result(ROOTS, RESULT.__getitem__, place)


def prove(place: Place) -> TensorProof | None:
    """Return what shows how many chunks a tensor of the result has; None if it is none."""
    part, index, _ = place
    is_there = part == Part.START and index < len(RESULT)
    return prove_tensor(find((part, index, 0))) if is_there else None


class Deliveries(Vaults[Vault]):
    """A job whose client may offer a premium, and that can be won.

    Args:
        task: what the job is about.
    """

    def __init__(self, task: Task = TASK) -> None:
        super().__init__(task, deploy_delivery, Vault, call)
        self.result = make_result(self.subject, STATE_ROOT)

    def offer(self, window_blocks: int = WINDOW_BLOCKS) -> str | None:
        """Let the client offer a premium, on the usual terms."""
        terms = (DEPOSIT_WEI, ANSWER_BLOCKS, window_blocks)
        return self.call("offer", CLIENT, self.subject, *terms, value_wei=PREMIUM_WEI)

    def win(self, history: Tree = HISTORY) -> None:
        """Let the job be won by a claim that three share, and one has joined late."""
        twins, top = self.twins, history.top
        assemble(twins, dict.fromkeys((*SHARERS, LIAR), top), hidden=(LIAR,))
        assert join(twins, LATE, top) is None
        self.settle(top)

    def settle(self, top: bytes = ZERO) -> None:
        """Let the job be settled once its windows are over."""
        self.twins.block = self.twins.store.jobs[0].window_end + 1
        assert self.twins.call("settle", CLIENT, 0, top) is None
        self.block = self.twins.block

    def register(self, sharer: Address, history: Tree = HISTORY, **changes: Any) -> str | None:
        """Let a sharer promise the last state of a history, with other arguments at some places."""
        view = self.view()
        args = list(register(sharer, view, history).args)
        for name, value in changes.items():
            args[int(name.removeprefix("at_"))] = value
        return self.call("register", sharer, *args)

    def demand(self, asker: Address, place: Place) -> str | None:
        """Let somebody demand a part of the result."""
        args = list_demand(place, prove(place))
        return self.call("demand", asker, self.result, *args, value_wei=DEPOSIT_WEI)

    def show(self, sender: Address, place: Place, **changes: Any) -> str | None:
        """Let somebody show what is demanded, with other arguments at some places."""
        return self.show_by(sender, self.result, find(place), **changes)

    def view(self) -> Delivery:
        """Return what the chain shows of the premium."""
        promised = self.view_of(self.result) if self.result in self.vault.promises else None
        said = [it.args for it in self.log if it.name == "Registered"]
        return Delivery(
            self.subject,
            self.vault.premiums[self.subject],
            self.twins.store.jobs[0].status,
            promised,
            [str(args[1]) for args in said],
            {account for subject, account in self.vault.shares if subject == self.result},
            self.block,
        )

    def compare(self) -> None:
        """Compare premiums and shares, too, and whose the money is that the contract holds."""
        super().compare()
        vault = self.vault
        for subject, premium in vault.premiums.items():
            assert unpack_premium(self.contract.view("premiums", hash_subject(subject))) == premium
        for subject in vault.promises:
            for account in (*PROVIDERS, CLIENT):
                has_share = self.contract.view("shares", hash_subject(subject), account)
                assert has_share == ((subject, account) in vault.shares)
        assert vault.balance_wei == self.count_money()

    def count_money(self) -> int:
        """Return what the contract owes to everybody together, in wei."""
        vault, waiting = self.vault, {DemandStatus.OPEN, DemandStatus.UNANSWERED}
        offered = (it for it in vault.premiums.values() if it.status is PremiumStatus.OFFERED)
        owed_wei = sum(it.premium_wei for it in offered)
        owed_wei += sum(it.bond_wei for it in vault.promises.values())
        for (subject, *_), demand in vault.demands.items():
            owed_wei += vault.promises[subject].deposit_wei * (demand.status in waiting)
        return owed_wei


def win_with_premium() -> Deliveries:
    """Return a job that is won, for whose result there is a premium."""
    found = Deliveries()
    assert found.offer() is None
    found.win()
    return found


def other_subject(subject: Subject) -> Subject:
    """Return the subject of a job that a reorganisation may have put under the same number."""
    return replace(subject, start_root=b"\1" * 32)
