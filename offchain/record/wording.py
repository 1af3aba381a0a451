"""The wording of a dispute: a line of text for every call, made from the events of the call."""

from collections.abc import Callable, Sequence

from moot.contracts.model.types import Event, Facts, Position
from moot.contracts.model.words import announce
from moot.contracts.reasons import Ending, Phase

NameOperator = Callable[[int, int], str]
"""(a job, the index of an operator of its program) -> its name and kind, empty if unknown."""

_PLAIN = {
    "open_job": "opens the job: program, start, data, clocks and reward",
    "commit": "joins with a bond and a sealed claim",
    "reveal": "shows its claim",
    "join": "joins late with a bond and a claim",
    "start_match": "starts a match: two claims differ",
    "settle": "settles the job",
    "collect": "collects what it is owed",
    "timeout": "ends the match: its rival's clock has run out",
    "rule": "rules: the bounded verifier has recomputed the operator",
    "prove_sink": "shows the step's output that the state should contain",
    "prove_operator": "proves that an operator of the program is not legal",
    "prove_operand": "proves that an operand of the program is not legal",
}
"""The text for each call whose meaning never varies."""

_DIGITS = 18
"""Characters of a number that are shown: all of an element's."""

_SHOWN = {
    Phase.INTERVAL: "commits to the states before it",
    Phase.TRACE: "commits to all outputs of the step",
    Phase.TENSOR: "shows its output",
    Phase.STATE: "shows its state",
    Phase.CHUNK: "shows its 256 bytes",
}
"""What a side shows when it enters a tree or reaches a chunk, by the phase that begins then."""


class Teller:
    """Says what each call means, in the order of the calls."""

    def __init__(self, name_operator: NameOperator) -> None:
        self._name_operator = name_operator
        self._facts = Facts()
        self._found: dict[tuple[object, ...], Facts] = {}

    def tell(self, call: str, events: Sequence[Event]) -> str:
        """Return what a call means; its name is empty if nobody knows it."""
        return _PLAIN.get(call) or self._describe(call, events)

    def _describe(self, call: str, events: Sequence[Event]) -> str:
        for event in events:
            self._facts = self._found.get(event.args[:3], Facts())
            match event.name, event.args[3:]:
                case "MatchEnded", (_, Ending.SCALAR, int(computed)):
                    return _describe_leaf(self._facts, computed)
                case "Found", (Facts() as facts,):
                    self._found[event.args[:3]] = facts
                case "Moved", (Position() as position, Sequence() as nodes, bytes(data)):
                    if position.phase in {Phase.FOLD, Phase.LEAF}:
                        return self._describe_fold(data)
                    job_id = int(str(event.args[0]))
                    return self._describe_dive(job_id, call, position, len(nodes))
        return "ends the match" if _is_of_match(events) else "calls the referee"

    def _describe_dive(self, job_id: int, call: str, position: Position, nodes: int) -> str:
        told = []
        if position.entered == 1 or (position.level == 0 and not position.entered):
            told.append(f"disputes {self._name_leaf(job_id, position)}")
        elif position.level > position.span or call == "descend":
            told.append(f"disputes node {position.index}")
        if call != "descend":
            told.append(_SHOWN.get(position.phase, "shows its tree"))
        if nodes:
            told.append(f"opens {nodes} node{'s' if nodes > 1 else ''}")
        is_first = position.moves == 1 and call == "descend"
        return ", ".join(told[-1:] if is_first else told)

    def _name_leaf(self, job_id: int, position: Position) -> str:
        """Name the leaf that was picked, which the facts have once its tree is entered."""
        facts = self._facts
        match position.phase:
            case Phase.INTERVAL:
                return f"checkpoint {facts.checkpoint}"
            case Phase.TRACE:
                return f"step {facts.step}"
            case Phase.TENSOR | Phase.VERIFIER:
                index = facts.operator if position.entered else position.index
                name = self._name_operator(job_id, index)
                return f"operator {index}, {name}" if name else f"operator {index}"
            case Phase.STATE:
                return "the state, and no operator's output"
            case Phase.SINK:
                return f"tensor {position.index} of the state"
        return f"chunk {position.index}"

    def _describe_fold(self, data: bytes) -> str:
        facts = self._facts
        place = f"element {facts.element}"
        if facts.high - facts.low < facts.fold_length:
            place = f"fold steps {facts.low} to {facts.high}"
        count = len(data) // facts.bits_bytes
        posted = f", posts {count} accumulators of its fold" if count else ""
        return f"disputes {place}{posted}"


def _is_of_match(events: Sequence[Event]) -> bool:
    return any(event.name == "MatchEnded" for event in events)


def _describe_leaf(facts: Facts, computed: int) -> str:
    """Say what the contract has computed, and what was claimed; wide sums by their digests."""
    said = [announce(facts, bits) for bits in facts.bits]
    wrong = " and not ".join(_shorten(claimed) for claimed in said if claimed != computed)
    what = "the sum whose digest is " if facts.accumulator_bytes else ""
    return f"proves the operands: it is {what}{_shorten(computed)} and not {wrong}"


def _shorten(number: int) -> str:
    digits = f"0x{number:08x}"
    return digits if len(digits) <= _DIGITS else f"{digits[:_DIGITS]}…"
