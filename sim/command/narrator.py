"""The narrator of a dispute: a line of text for every move, made from the events of the move."""

from collections.abc import Sequence

from rich.console import Console

from contracts.model.types import Facts, Position
from contracts.model.words import announce
from contracts.reasons import Ending, Phase
from offchain.disputes.game import Played
from offchain.disputes.session import Session

_PLAIN = {
    "open_job": "opens the job: program, start, data, clocks and reward",
    "commit": "joins with a bond and a sealed claim",
    "reveal": "shows its claim",
    "start_match": "starts a match: two claims differ",
    "settle": "settles the job",
    "collect": "collects what it is owed",
    "timeout": "ends the match: its rival's clock has run out",
    "rule": "rules: the bounded verifier has recomputed the operator",
    "prove_sink": "shows the step's output that the state should contain",
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


class Narrator:
    """Tells what each move means, on a console."""

    def __init__(self, session: Session, console: Console) -> None:
        self._session = session
        self._console = console
        self._stage = ""
        self._facts = Facts()
        self._found: dict[tuple[object, ...], Facts] = {}

    def tell(self, played: Played) -> None:
        """Tell one move."""
        if played.stage != self._stage:
            self._stage = played.stage
            self._console.print(f"[bold]{self._stage}[/]")
        text = _PLAIN.get(played.call) or self._describe(played)
        gas = f"{played.receipt.gas_used:>9,} gas" if played.receipt else ""
        self._console.print(f"  {played.player:<15} {text:<74} [dim]{gas}[/]")

    def _describe(self, played: Played) -> str:
        for event in played.events:
            self._facts = self._found.get(event.args[:3], Facts())
            match event.name, event.args[3:]:
                case "MatchEnded", (_, Ending.SCALAR, int(computed)):
                    return _describe_leaf(self._facts, computed)
                case "Found", (Facts() as facts,):
                    self._found[event.args[:3]] = facts
                case "Moved", (Position() as position, Sequence() as nodes, bytes(data)):
                    if played.call in {"pick_element", "pick_segment"}:
                        return self._describe_fold(played.call, data)
                    return self._describe_dive(played.call, position, len(nodes))
        return "ends the match"

    def _describe_dive(self, call: str, position: Position, nodes: int) -> str:
        told = []
        if position.entered == 1 or (position.level == 0 and not position.entered):
            told.append(f"disputes {self._name_leaf(position)}")
        elif position.level > position.span or call == "descend":
            told.append(f"disputes node {position.index}")
        if call != "descend":
            told.append(_SHOWN[position.phase])
        if nodes:
            told.append(f"opens {nodes} node{'s' if nodes > 1 else ''}")
        is_first = position.moves == 1 and call == "descend"
        return ", ".join(told[-1:] if is_first else told)

    def _name_leaf(self, position: Position) -> str:
        """Name the leaf that was picked, which the facts have once its tree is entered."""
        facts, program = self._facts, self._session.task.program
        match position.phase:
            case Phase.INTERVAL:
                return f"checkpoint {facts.checkpoint}"
            case Phase.TRACE:
                return f"step {facts.step}"
            case Phase.TENSOR | Phase.VERIFIER:
                index = facts.operator if position.entered else position.index
                node = program.nodes[index]
                return f"operator {index}, {program.names[index]} ({node.kind.name.lower()})"
            case Phase.STATE:
                return "the state, and no operator's output"
            case Phase.SINK:
                return f"tensor {position.index} of the state"
        return f"chunk {position.index}"

    def _describe_fold(self, call: str, data: bytes) -> str:
        facts = self._facts
        place = f"fold steps {facts.low} to {facts.high}"
        if call == "pick_element":
            place = f"element {facts.element}"
        count = len(data) // facts.bits_bytes
        posted = f", posts {count} accumulators of its fold" if count else ""
        return f"disputes {place}{posted}"


def _describe_leaf(facts: Facts, computed: int) -> str:
    """Say what the contract has computed, and what was claimed; wide sums by their digests."""
    said = [announce(facts, bits) for bits in facts.bits]
    wrong = " and not ".join(_shorten(claimed) for claimed in said if claimed != computed)
    what = "the sum whose digest is " if facts.accumulator_bytes else ""
    return f"proves the operands: it is {what}{_shorten(computed)} and not {wrong}"


def _shorten(number: int) -> str:
    digits = f"0x{number:08x}"
    return digits if len(digits) <= _DIGITS else f"{digits[:_DIGITS]}…"
