"""Between the model's dataclasses and the contract's ABI, in which structs are tuples of words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from moot.contracts.model.answers import Demand, Promise, Subject
from moot.contracts.model.bonds import Balance
from moot.contracts.model.delivery import Premium
from moot.contracts.model.receipts import Receipt
from moot.contracts.model.types import (
    KEY_BYTES,
    Address,
    Claim,
    Event,
    Facts,
    Job,
    Member,
    Pair,
    Position,
    Terms,
    WideFacts,
)
from moot.contracts.model.words import hash_pair, hash_top, pack, pack_facts, pack_head, split
from moot.contracts.reasons import (
    DemandStatus,
    Ending,
    Fault,
    LeafMode,
    Outcome,
    Phase,
    PremiumStatus,
    PromiseStatus,
    Standing,
    Status,
)
from moot.offchain.commitments.tree import Digest


def unpack(word: int, *widths: int) -> tuple[int, ...]:
    """Return the fields of a word, of so many bits each, the first from the lowest bits."""
    found = []
    for width in widths:
        found.append(word & ((1 << width) - 1))
        word >>= width
    return tuple(found)


def pack_position(position: Position) -> tuple[Any, ...]:
    """Return a position as the ABI takes it."""
    return (pack_head(position), *position.nodes, position.facts)


def unpack_position(words: Sequence[Any]) -> Position:
    """Return the position of an ABI's tuple."""
    head, first, second, facts = words
    index, count, deadline, spare, level, span, moves, phase, entered, mover, clock, increment = (
        unpack(head, 56, 56, 40, 24, 6, 3, 8, 4, 2, 1, 24, 24)
    )
    return Position(
        phase=Phase(phase),
        mover=mover,
        deadline=deadline,
        spare_blocks=spare,
        clock_blocks=clock,
        increment_blocks=increment,
        nodes=(first, second),
        count=count,
        level=level,
        index=index,
        span=span,
        entered=entered,
        moves=moves,
        facts=facts,
    )


def unpack_facts(words: Sequence[Any]) -> Facts:
    """Return the facts of an ABI's tuple, of one form or the other."""
    place, *roots, tensor, fold, bits = words
    first_step, step, checkpoint, operator = unpack(place, 40, 40, 40, 32)
    elements, element, fold_length, width = unpack(tensor, 64, 64, 64, 8)
    low, high, low_bits = unpack(fold, 64, 64, 64)
    is_wide = not isinstance(bits, int)
    if is_wide:
        wide = (int.from_bytes(b"".join(each), "little") for each in bits)
        low_bits, first, second = wide
    else:
        first, second = unpack(bits, 64, 64)
    form = WideFacts if is_wide else Facts
    return form(
        first_step=first_step,
        step=step,
        checkpoint=checkpoint,
        operator=operator,
        intervals=(roots[0], roots[1]),
        traces=(roots[2], roots[3]),
        encoding_digest=roots[4],
        elements=elements,
        element=element,
        fold_length=fold_length,
        width=width,
        low=low,
        high=high,
        low_bits=low_bits,
        bits=(first, second),
    )


def to_abi(value: Any) -> Any:
    """Return an argument of a call as the ABI takes it."""
    if isinstance(value, Position):
        return pack_position(value)
    if isinstance(value, Facts):
        return pack_facts(value)
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(to_abi(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, (list, tuple)):
        return [to_abi(item) for item in value]
    return value


def pack_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of a call of the model as the contract takes them."""
    return tuple(to_abi(arg) for arg in args)


CALLED_THROUGH = {"leaf": "leaf", "prove_operator": "legality", "prove_operand": "legality"}
"""The calls of the model that are made of another contract, by name, which makes its own of a
referee; `leaf_contract` and `legality_contract` of the referee say where they are."""


def pack_call(name: str, args: Sequence[Any], referee: str) -> tuple[Any, ...]:
    """Return the arguments of a call as the contract takes it of which it is made."""
    packed = pack_args(args)
    if name == "pick_segment" and (size := args[2].accumulator_bytes):
        packed = (*packed[:5], split(args[5], size), *packed[6:])
    return (referee, *packed) if name in CALLED_THROUGH else packed


def unpack_job(words: Sequence[Any]) -> Job:
    """Return the job of what `jobs` gives: the contract's own words (ledger.vy)."""
    head, scope, tally, client, verifier, offer, *roots = words
    layout, program_top, start_root, data_top = roots
    opened, commit, reveal, window, clock, increment = unpack(head, 40, 24, 24, 24, 24, 24)
    operators, state_slots, batch_slots, steps, every, mode = unpack(scope, 32, 32, 32, 64, 64, 8)
    claims, hidden, defeated, forfeits, meetings, window_end, status, owed, undecided, bond_wei = (
        unpack(tally, 24, 24, 24, 24, 32, 40, 2, 1, 1, 80)
    )
    terms = Terms(
        operators=operators,
        state_slots=state_slots,
        batch_slots=batch_slots,
        layout=layout,
        program_top=program_top,
        start_root=start_root,
        data_top=data_top,
        steps=steps,
        checkpoint_every=every,
        leaf_mode=LeafMode(mode),
        verifier=verifier,
        bond_wei=bond_wei,
        commit_blocks=commit,
        reveal_blocks=reveal,
        window_blocks=window,
        clock_blocks=clock,
        increment_blocks=increment,
    )
    return Job(
        client=client,
        terms=terms,
        reward_wei=unpack(offer, 96)[0],
        opened_block=opened,
        window_end=window_end,
        claims=claims,
        hidden=hidden,
        defeated=defeated,
        forfeits=forfeits,
        meetings=meetings,
        status=Status(status),
        is_client_owed=owed == 1,
        is_undecided=undecided == 1,
    )


def unpack_member(word: int) -> Member:
    """Return the member of what `members` gives for a job and an account."""
    standing, prizes, key = unpack(word, 8, 24, 8 * KEY_BYTES)
    return Member(Standing(standing), key.to_bytes(KEY_BYTES, "big"), prizes)


def unpack_claim(top: Digest, word: int) -> Claim | None:
    """Return the claim of what `claims` gives for a job and a key, `get_key(top)`."""
    contenders, sharers, meeting, window_end, exists = unpack(word, 24, 24, 32, 40, 1)
    if not exists:
        return None
    return Claim(top, contenders, sharers, meeting, window_end)


def unpack_promise(words: Sequence[int]) -> Promise | None:
    """Return the promise of what `promises` of answers.vy gives for a subject's digest."""
    if not words[0]:
        return None
    client, open_demands, answer_blocks, last_block, status = _unpack_head(words)
    bond_wei, sharers, deposit_wei = _unpack_money(words)
    return Promise(
        client=client,
        bond_wei=bond_wei,
        deposit_wei=deposit_wei,
        answer_blocks=answer_blocks,
        last_block=last_block,
        open_demands=open_demands,
        status=PromiseStatus(status),
        sharers=sharers,
    )


def unpack_premium(words: Sequence[int]) -> Premium | None:
    """Return the premium of what `premiums` of delivery.vy gives for a subject's digest."""
    if not words[0]:
        return None
    client, _, answer_blocks, last_block, status = _unpack_head(words)
    premium_wei, window_blocks, deposit_wei = _unpack_money(words)
    return Premium(
        client=client,
        premium_wei=premium_wei,
        deposit_wei=deposit_wei,
        answer_blocks=answer_blocks,
        window_blocks=window_blocks,
        last_block=last_block,
        status=PremiumStatus(status),
    )


def _unpack_head(words: Sequence[int]) -> tuple[Address, int, int, int, int]:
    """Return what the first word of a promise or of a premium holds."""
    client, *numbers = unpack(words[0], 160, 24, 24, 40, 8)
    open_demands, answer_blocks, last_block, status = numbers
    return _to_address(client), open_demands, answer_blocks, last_block, status


def _unpack_money(words: Sequence[int]) -> Sequence[int]:
    """Return what the second word holds: an amount, what is the contract's own, and the deposit."""
    return unpack(words[1], 80, 48, 128)


def unpack_demand(word: int) -> Demand | None:
    """Return the demand of what `demands` of answers.vy gives for its place's digest."""
    asker, deadline, status = unpack(word, 160, 48, 8)
    return Demand(_to_address(asker), deadline, DemandStatus(status)) if word else None


def pack_balance(balance: Balance) -> int:
    """Return the word of a bond or of a client's balance, as service.vy keeps it."""
    return pack(
        (balance.standing_wei, 96),
        (balance.leaving_wei, 96),
        (balance.last_block, 40),
        (balance.is_at_fault, 1),
    )


def unpack_balance(word: int) -> Balance:
    """Return the balance of what `stakes` or `funds` of service.vy gives."""
    standing_wei, leaving_wei, last_block, is_at_fault = unpack(word, 96, 96, 40, 1)
    return Balance(standing_wei, leaving_wei, last_block, is_at_fault == 1)


def unpack_receipt(words: Sequence[Any]) -> Receipt:
    """Return the receipt of an ABI's tuple."""
    return Receipt(*words)


def _to_address(number: int) -> Address:
    return f"0x{number:040x}"


def get_key(top: Digest) -> int:
    """Return the number under which the contract stores a claim of a job."""
    return int.from_bytes(hash_top(top), "big")


class EventReader:
    """Reads the contract's events, in the order in which they were announced.

    Those of a match but the first have its number for a topic instead of its members.
    """

    def __init__(self) -> None:
        self._pairs: dict[bytes, Pair] = {}

    def note(self, pair: Pair) -> None:
        """Remember the members of a match that did not begin under this reader's eyes."""
        self._pairs[hash_pair(pair)] = pair

    def is_strange(self, name: str, args: Mapping[str, Any]) -> bool:
        """Whether an event is of a match of which neither the beginning nor the members are known.

        Args:
            name: the event's name.
            args: its arguments as the contract gives them, by their names.
        """
        return name in _OF_MATCH and bytes(next(iter(args.values()))) not in self._pairs

    def read(self, name: str, args: Sequence[Any]) -> Event:
        """Return the model's event of a contract's."""
        if name == "MatchStarted":
            self.note(Pair(*args[:3]))
        if name not in _OF_MATCH:
            return Event(name, _convert(name, args))
        pair, values = self._pairs[bytes(args[0])], _convert(name, args[1:])
        return Event(name, (pair.job_id, pair.first, pair.second, *values))


def _convert(name: str, args: Sequence[Any]) -> tuple[Any, ...]:
    readers = _READERS.get(name, {})
    return tuple(readers[i](arg) if i in readers else arg for i, arg in enumerate(args))


_OF_MATCH = frozenset({"Found", "Moved", "MatchEnded"})
_READERS: dict[str, dict[int, Callable[[Any], Any]]] = {
    "MatchStarted": {3: unpack_position},
    "Found": {0: unpack_facts},
    "Moved": {0: unpack_position, 1: tuple},
    "MatchEnded": {0: Outcome, 1: Ending},
    "Settled": {1: Status},
    "Promised": {2: lambda words: Subject(*words)},
    "Challenged": {5: unpack_receipt},
    "Faulted": {2: Fault},
}
"""How the arguments that are not plain are read, by the event's name and the argument's place; the
number of a match does not count as one."""
