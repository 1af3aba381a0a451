"""The narrator of a dispute: a line of text for every move, made from the events of the move."""

from rich.console import Console
from rich.text import Text

from moot.offchain.disputes.play.game import Played
from moot.offchain.programs.graph import Program
from moot.offchain.record.names import list_names
from moot.offchain.record.wording import Teller
from moot.offchain.text import clean

LONGEST = 400
"""Characters of a line that are told: more than the bits of any accumulator have."""


class Narrator:
    """Tells what each move means, on a console."""

    def __init__(self, program: Program, console: Console) -> None:
        names = list_names(program)
        self._teller = Teller(lambda _, index: names[index])
        self._console = console
        self._stage = ""

    def tell(self, played: Played) -> None:
        """Tell one move."""
        if played.stage != self._stage:
            self._stage = played.stage
            self._console.print(self._stage, style="bold")
        text = self._teller.tell(played.call, played.events)
        gas = f"{played.receipt.gas_used:>9,} gas" if played.receipt else ""
        line = f"  {played.player:<15} {clean(text, LONGEST):<74} "
        self._console.print(Text.assemble(line, (gas, "dim")))
