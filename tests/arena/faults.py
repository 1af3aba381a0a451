"""The faults that the arena has found: what each was, who finds it, and by which invariant."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.arena.draw import draw_story
from tests.arena.play import Verdict, play_in_world
from tests.arena.story import Story

if TYPE_CHECKING:
    from tests.arena.world import World

Sign = Callable[["World"], bool]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the honest side.

    Attributes:
        says: what it is.
        families: the adversaries that find it.
        invariants: what it breaks, any of these.
        sign: what else is to be seen, so that it is not taken for another one.
        is_rare: whether thousands of drawn games show it once; its kept game always does.
    """

    says: str
    families: tuple[str, ...]
    invariants: frozenset[str]
    sign: Sign = lambda _: True
    is_rare: bool = False


def _has_told(words: str) -> Sign:
    return lambda world: any(words in it.line for it in world.told)


def _is_told(kind: str) -> Sign:
    def is_told(world: "World") -> bool:
        return any(it.params.get("kind") == kind for it in world.story.moves)

    return is_told


def _is_partly_filled(world: "World") -> bool:
    shares = [it.params["percent"] for it in world.story.moves if it.family == "censor"]
    is_rich = not _has_told("fund it")(world) and not _has_told("given up")(world)
    return bool(shares) and max(shares) < 100 and is_rich


BOND = frozenset({"bond"})
FAULTS = {
    "crowd": Fault(
        "a provider gives up all matches where their gas costs more than a bond",
        ("liars",),
        BOND,
        _has_told("given up"),
    ),
    "reservations": Fault(
        "a provider that holds what its check asks for can't send its last move",
        ("liars",),
        BOND,
        _has_told("fund it"),
    ),
    "room": Fault(
        "a call asks for so much more room than it takes that half a block keeps it out",
        ("liars", "censor"),
        BOND,
        _is_partly_filled,
    ),
    "history": Fault(
        "a history is served before claims are shown, and copied",
        ("copiers",),
        frozenset({"history", "copies"}),
    ),
    "result": Fault(
        "a result is served before it is paid for", ("copiers",), frozenset({"result"})
    ),
    "number": Fault(
        "a commit binds a job's number, which a reorganisation gives to another job",
        ("reorganiser",),
        BOND,
    ),
    "work": Fault(
        "a job that pays nothing keeps the workshop for ever", ("dust",), frozenset({"work"})
    ),
    "locks": Fault(
        "a job that pays nothing locks a bond for a year", ("dust",), frozenset({"locks"})
    ),
    "held": Fault(
        "matches of others that nobody ends hold a bond for ever",
        ("liars", "liars", "lazy client"),
        frozenset({"locks"}),
    ),
    "pump": Fault(
        "a client is paid more for the parts that it withholds than the job pays",
        ("demands",),
        frozenset({"demands"}),
    ),
    "nodes": Fault("one odd word of a node ends the party", ("nodes",), frozenset({"life"})),
    "counted": Fault(
        "a node that counts too few transactions of an account is believed",
        ("nodes", "liars"),
        BOND,
        is_rare=True,
    ),
    "replaced": Fault(
        "a clock is taken that a reorganisation can use up", ("liars", "reorganiser"), BOND
    ),
    "reopened": Fault(
        "a party that begins anew never leaves the first of its nodes, which tells of an old block",
        ("nodes", "kills", "liars"),
        BOND,
        _has_told("changes too often to be read"),
        is_rare=True,
    ),
    "ceiling": Fault(
        "a fee is offered that a later base fee passes, and that none below the ceiling replaces",
        ("liars", "reorganiser"),
        BOND,
        _has_told("is in no block after"),
        is_rare=True,
    ),
    "kept": Fault(
        "a node that takes no transaction keeps an account's calls out for good",
        ("falsehoods", "liars"),
        BOND,
        _is_told("refuses"),
    ),
    "told": Fault(
        "what one of two nodes leaves out, or tells of what is not, is believed",
        ("falsehoods", "liars"),
        frozenset({"bond", "history"}),
    ),
    "narrow": Fault(
        "a node that knows no room for a call has it run out of gas, and it is not made again",
        ("falsehoods", "liars"),
        BOND,
        _is_told("little room"),
    ),
    "gap": Fault(
        "a node that counts too many transactions of an account is believed",
        ("falsehoods", "liars"),
        BOND,
        _is_told("count ahead"),
    ),
    "left": Fault(
        "a job is left for good because a node does not tell of the commit",
        ("falsehoods", "liars"),
        BOND,
        _is_told("no member"),
    ),
    "ended": Fault(
        "a job that a node calls closed is never played again by a party that begins anew",
        ("falsehoods", "liars", "kills"),
        BOND,
        _is_told("closed"),
        is_rare=True,
    ),
    "anew": Fault(
        "a party that begins anew with a node far ahead never reads another one's chain",
        ("falsehoods", "liars", "kills"),
        BOND,
        _is_told("far ahead"),
        is_rare=True,
    ),
    "undecided": Fault(
        "a party that begins anew never gets past two nodes of which each speaks against the other",
        ("falsehoods", "nodes", "kills", "liars"),
        BOND,
        _has_told("another has another block"),
        is_rare=True,
    ),
    "leapt": Fault(
        "a node that tells of a far block ends the doubt about it by that block's number",
        ("falsehoods", "kills"),
        frozenset({"history"}),
        _is_told("far ahead"),
        is_rare=True,
    ),
    "peek": Fault(
        "a claim that waits to be shown is copied by whoever replaces the block before",
        ("peekers",),
        frozenset({"copies"}),
    ),
    "hidden": Fault(
        "a claim is kept from being shown for less than the reward",
        ("censor",),
        BOND,
        is_rare=True,
    ),
    "cheap": Fault(
        "a call waits for a base fee that only the node tells of which is in use",
        ("falsehoods", "liars"),
        BOND,
        _is_told("low fee"),
        is_rare=True,
    ),
}


def is_found(fault: Fault, verdict: Verdict, world: "World") -> bool:
    """Whether a game shows a fault."""
    return not fault.invariants.isdisjoint(verdict.broken) and fault.sign(world)


def search(fault: Fault, games: int, seed: int = 0) -> tuple[int, Story] | None:
    """Return the first game that shows a fault: how many were played, and its story."""
    for number in range(games):
        story = draw_story(seed + number, fault.families)
        if is_found(fault, *play_in_world(story)):
            return number + 1, story
    return None
