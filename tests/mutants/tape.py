"""The recorder of a story: the model of the referee, which notes every call that is made."""

from collections.abc import Sequence
from typing import Any

from moot.contracts.model.abi import pack_call
from moot.contracts.model.referee import call
from moot.contracts.model.types import Event, Message, Store
from moot.contracts.reasons import Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from tests.machines.base import CHAIN_ID
from tests.mutants.replay import Call, locate_referee

ACCOUNTS = tuple("0x" + f"{number:02x}" * 20 for number in range(0x11, 0x1B))
CLIENT, VERIFIER, *MEMBERS = ACCOUNTS
SALT = b"salt".ljust(32, b"\1")


class Tape:
    """A recorder of all calls to a referee.

    Args:
        arithmetic: that of the referee.

    Attributes:
        store: the model.
        block: that of the next call.
        calls: all that have been made.
        log: all events.
    """

    def __init__(self, arithmetic: Arithmetic = ORDERED) -> None:
        self.store = Store(CHAIN_ID, locate_referee(arithmetic), arithmetic=arithmetic)
        self.block = 1
        self.calls: list[Call] = []
        self.log: list[Event] = []

    def call(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call, and return why it is refused, if it is.

        One that can't be written down, because a field is wider than its bound, is not noted.
        """
        message = Message(sender, value_wei, self.block)
        reason: str | None = None
        events: Sequence[Event] = ()
        try:
            pack_call(name, args, self.store.address)
            events = call(self.store, name, message, *args)
        except Revert as refusal:
            reason = str(refusal)
        except (AssertionError, OverflowError, ValueError) as error:
            self.store.rollback()
            return repr(error)
        self.note(name, sender, *args, value_wei=value_wei)
        self.log += events
        return reason

    def note(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> None:
        """Note a call that the model need not make now."""
        self.calls.append(Call(self.block, sender, name, args, value_wei))
