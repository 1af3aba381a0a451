"""A contract upon which parts are demanded and shown, as a party uses it.

`offchain/disputes/availability.py` and `delivery.py` say who does what; this looks, and sends.
"""

from collections.abc import Iterable

from contracts.compiler import compile_contract
from contracts.model.abi import pack_args, unpack_demand, unpack_promise
from contracts.model.answers import Demand, Subject, hash_subject
from offchain.chain import Address
from offchain.commitments.keccak import keccak256
from offchain.commitments.tree import Digest
from offchain.disputes.availability import Place, Promised
from offchain.disputes.gas import offer_gas
from offchain.disputes.referee import Call
from offchain.disputes.shown import Shown, read_shown
from offchain.errors import ChainError
from offchain.parties.live import Desk


class Answers:
    """A contract upon which parts are demanded.

    Args:
        desk: where the party works; its settings say where the contract is.
        name: the contract's name, and that of the setting.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, desk: Desk, name: str) -> None:
        desk.settings.require(name)
        address = Address(str(getattr(desk.settings, name)).lower())
        self._desk = desk
        self._contract = desk.chain.at(compile_contract(name), address)
        self._shown: dict[tuple[str, Subject], list[Shown]] = {}

    def look_at(self, subject: Subject, first_block: int) -> Promised | None:
        """Return what the chain shows of a promise since a block; None if there is none."""
        contract, name = self._contract, hash_subject(subject)
        promise = unpack_promise(contract.call("promises", name))
        if promise is None:
            return None
        head = self._desk.chain.block_number()
        demands: dict[Place, Demand] = {}
        for _, event in contract.events(first_block, head, [name]):
            if event.name == "Demanded":
                place: Place = tuple(event.args[it] for it in ("part", "index", "chunk"))
                demand = unpack_demand(contract.call("demands", _hash_place(name, place)))
                if demand is not None:
                    demands[place] = demand
        return Promised(subject, promise, demands, head + 1)

    def read_shown_of(self, subject: Subject, first_block: int) -> list[Shown]:
        """Return what was shown of a promise's subject since a block, proven or not.

        What a contract of somebody's has made by itself, and not passed on, is not found.
        """
        contract, chain = self._contract, self._desk.chain
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
            line = f"job {job_id}: {call.name} {result}"
            self._desk.tell("call", line, job=job_id, call=call.name, accepted=is_made)
            if isinstance(answer, ChainError):
                refused.append(answer)
        return refused


def _hash_place(promise: Digest, place: Place) -> Digest:
    """Return the number of a demand: the digest of the promise's and of the place."""
    return keccak256(promise + b"".join(int(it).to_bytes(32, "big") for it in place))
