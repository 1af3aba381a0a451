"""A reputation that grows with each job, falls with each lost bond, and fades with time."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class Decaying:
    """The rule that a good job closes a share `gain` of what is missing, and a lie keeps `kept`.

    What differs from `start` halves in `half_life` blocks; 0 lets nothing fade.
    """

    start: float = 0.5
    gain: float = 0.05
    kept: float = 0.2
    half_life: int = 50_000

    def __post_init__(self) -> None:
        if not all(0 <= share <= 1 for share in (self.start, self.gain, self.kept)):
            raise UsageError("start, gain and kept are from 0 to 1")
        if self.half_life < 0:
            raise UsageError(f"a half-life of {self.half_life} blocks is none; choose 0 or more")

    def begin(self) -> float:
        """Return the reputation of whoever is new."""
        return self.start

    def update(self, reputation: float, blocks: int, *, is_good: bool) -> float:
        """Return the reputation after a job."""
        if self.half_life:
            fading: float = 0.5 ** (blocks / self.half_life)
            reputation = self.start + (reputation - self.start) * fading
        return reputation + self.gain * (1.0 - reputation) if is_good else reputation * self.kept
