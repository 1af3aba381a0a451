"""A story: all that was drawn of a game, as JSON has it, so that it is played again exactly."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    """What one adversary does: the name of its family, and what was drawn for it."""

    family: str
    params: Params


@dataclass(frozen=True, slots=True)
class Terms:
    """The main job's terms: wei, blocks, and the sizes of its program.

    A clock of 0 is the shortest that the provider's check takes.
    """

    bond_wei: int = 10**18
    reward_wei: int = 10**17
    commit_blocks: int = 16
    reveal_blocks: int = 16
    window_blocks: int = 16
    clock_blocks: int = 64
    increment_blocks: int = 4
    checkpoints: int = 4
    step_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Story:
    """A game before it is played.

    Attributes:
        seed: what it was drawn from.
        levels: the base fee in gwei to which the chain tends, each from a block on.
        spare_gwei: what the provider's account holds above what its check asks for; None for 100
            ether.
        settings: what the provider is told.
        terms: those of the main job.
        moves: the adversaries.
    """

    seed: int
    levels: tuple[tuple[int, float], ...] = ((0, 5.0),)
    spare_wei: int | None = None
    settings: Params = field(default_factory=dict)
    terms: Terms = Terms()
    moves: tuple[Move, ...] = ()

    def to_json(self) -> str:
        """Return the story as text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def tell(self) -> str:
        """Return the story in one line."""
        moves = "; ".join(f"{it.family} {_tell(it.params)}" for it in self.moves) or "nobody"
        levels = ", ".join(f"{gwei:g} gwei from block {block}" for block, gwei in self.levels)
        money = "100 ether" if self.spare_wei is None else f"what is asked + {self.spare_wei:,} wei"
        return f"{moves}; {levels}; {money}; {_tell(self.settings)}"


def read_story(text: str) -> Story:
    """Return the story of a text."""
    raw = json.loads(text)
    return Story(
        seed=raw["seed"],
        levels=tuple((int(block), float(gwei)) for block, gwei in raw["levels"]),
        spare_wei=raw["spare_wei"],
        settings=raw["settings"],
        terms=Terms(**raw["terms"]),
        moves=tuple(Move(**it) for it in raw["moves"]),
    )


def _tell(params: Params) -> str:
    return " ".join(f"{name}={value}" for name, value in params.items())
