"""A contract upon which parts are demanded and shown, as a party uses it.

`offchain/disputes/availability/demands.py` and `delivery.py` say who does what; this looks, and
sends.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import pack_args, unpack_demand, unpack_promise
from moot.contracts.model.answers import (
    DEPOSIT_GAS,
    MIN_DEPOSIT_WEI,
    Demand,
    Subject,
    hash_subject,
)
from moot.contracts.reasons import DemandStatus
from moot.offchain.chain import Address
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.receipts import Event, Receipt
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.availability.calldata import Shown, read_shown
from moot.offchain.disputes.availability.demands import Place, Promised
from moot.offchain.disputes.referee.gas import offer_gas
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import ChainError, Reverted
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.event_log import EventLog


class Answers:
    """A contract upon which parts are demanded.

    Args:
        context: where the party works; its settings say where the contract is.
        name: the contract's name, and that of the setting.

    Attributes:
        spent_wei: by job what the gas of this party's calls has cost.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, context: PartyContext, name: str) -> None:
        context.settings.require(name)
        address = Address(str(getattr(context.settings, name)).lower())
        self._context = context
        self._contract = context.chain.at(compile_contract(name), address)
        self._log = EventLog(context.chain, self._contract)
        self.spent_wei: Counter[int] = Counter()
        self._shown: dict[tuple[str, Subject], list[Shown]] = {}

    def look_at(self, firsts: Mapping[Subject, int]) -> dict[Subject, Promised]:
        """Return what the chain shows of promises, each since a block, in one exchange.

        Where a promise is broken, another exchange asks which own deposits were taken back.
        """
        names = {hash_subject(subject): subject for subject in firsts}
        blocks = {name: firsts[subject] for name, subject in names.items()}
        looked = self._log.look(blocks, [("promises", (name,)) for name in names])
        found: dict[Subject, Promised] = {}
        for (name, subject), words in zip(names.items(), looked.answers, strict=True):
            promise = unpack_promise(words)
            if promise is not None:
                demands, authors = read_demands(looked.events[name])
                view = Promised(subject, promise, demands, looked.block + 1, authors)
                found[subject] = view
        return self._note_returns(found)

    def _note_returns(self, found: dict[Subject, Promised]) -> dict[Subject, Promised]:
        """Return views in which own demands upon broken promises are as the contract has them."""
        own = self._context.address
        due = [(view, place) for view in found.values() for place in view.list_owed(own)]
        keys = [_hash_place(hash_subject(view.subject), place) for view, place in due]
        words = self._log.ask([("demands", (key,)) for key in keys]) if keys else []
        for (view, place), word in zip(due, words, strict=True):
            demand = unpack_demand(word)
            if demand is not None:
                changed = {**found[view.subject].demands, place: demand}
                found[view.subject] = replace(found[view.subject], demands=changed)
        return found

    def read_shown_of(self, subject: Subject, first_block: int) -> list[Shown]:
        """Return what was shown of a promise's subject since a block, proven or not.

        What a contract of somebody's has made by itself, and not passed on, is not found.
        """
        contract, chain = self._contract, self._context.chain
        found: list[Shown] = []
        logs = contract.trace(first_block, chain.block_number(), [hash_subject(subject)])
        shown = [log for log, event in logs if event.name == "Shown"]
        for key, block in dict.fromkeys((log.transaction_hash, log.place[0]) for log in shown):
            if (key, subject) not in self._shown:
                past = chain.node.get_past(key, block)
                if past is None:  # the chain is another one by now
                    continue
                self._shown[key, subject] = [*read_shown(past.data, subject)]
            found += self._shown[key, subject]
        return found

    def send(self, calls: Iterable[Call]) -> list[ChainError]:
        """Make calls, tell of them, and return why some were refused."""
        made = [*calls]
        transactions = [
            offer_gas(
                self._contract.prepare(
                    call.name,
                    *pack_args(call.args),
                    sender=Address(call.sender),
                    value=call.value_wei,
                )
            )
            for call in made
        ]
        answers = self._contract.send(transactions) if transactions else []
        refused = []
        for call, answer in zip(made, answers, strict=True):
            is_made = not isinstance(answer, ChainError)
            result = "made" if is_made else f"refused: {answer}"
            job_id = call.args[0].job_id
            self.spent_wei[job_id] += _get_fee(answer)
            line = f"job {job_id}: {call.name} {result}"
            self._context.tell("call", line, job=job_id, call=call.name, accepted=is_made)
            if isinstance(answer, ChainError):
                refused.append(answer)
        return refused


def read_demands(
    events: Iterable[Event],
) -> tuple[dict[Place, Demand], dict[Place, str]]:
    """Return the demands that events of a promise tell of, and who has shown what.

    They do not tell which deposits were taken back.
    """
    demands: dict[Place, Demand] = {}
    authors: dict[Place, str] = {}
    for event in events:
        if event.name not in {"Demanded", "Shown", "Broken"}:
            continue
        place: Place = tuple(event.args[it] for it in ("part", "index", "chunk"))
        if event.name == "Demanded":
            demands[place] = Demand(str(event.args["asker"]), event.args["deadline"])
        elif place not in demands:  # a node has left out what comes before
            continue
        elif event.name == "Shown":
            demands[place] = replace(demands[place], status=DemandStatus.SHOWN)
            authors[place] = str(event.args["account"])
        else:
            demands[place] = replace(demands[place], status=DemandStatus.UNANSWERED)
    return demands, authors


def choose_deposit(max_fee_gwei: float) -> int:
    """Return the deposit that pays for an answer at the highest fee, in wei."""
    return max(MIN_DEPOSIT_WEI, DEPOSIT_GAS * int(max_fee_gwei * GWEI))


def _get_fee(answer: Receipt | ChainError) -> int:
    """Return what the gas of a call has cost, in wei."""
    if isinstance(answer, Receipt):
        return answer.gas_used * answer.effective_gas_price
    return answer.fee_wei if isinstance(answer, Reverted) else 0


def _hash_place(promise: Digest, place: Place) -> Digest:
    """Return the number of a demand: the digest of the promise's and of the place."""
    return keccak256(promise + b"".join(int(it).to_bytes(32, "big") for it in place))
