"""The expected payments of a job, computed from who has joined and who has beaten whom."""

from collections import Counter
from dataclasses import dataclass, field

from moot.contracts.model.types import Address
from moot.contracts.reasons import Status


@dataclass(slots=True)
class Books:
    """The money of one job, kept apart from the referee's; all sums are in wei.

    Attributes:
        bond_wei: what each member puts at stake.
        reward_wei: what the client has brought.
        hidden: members that have committed and not revealed.
        left: members that have shown a claim and not lost, and whether they share the reward.
        prizes: matches that each member has won; those of a loser are forfeited.
        lost: bonds of members that have lost.
        released: members that are out because the verifier was silent.
    """

    bond_wei: int
    reward_wei: int
    hidden: set[Address] = field(default_factory=set)
    left: dict[Address, bool] = field(default_factory=dict)
    prizes: Counter[Address] = field(default_factory=Counter)
    lost: int = 0
    released: set[Address] = field(default_factory=set)

    def show(self, member: Address, *, shares: bool) -> None:
        """Note that a member has shown its claim."""
        self.hidden.discard(member)
        self.left[member] = shares

    def defeat(self, loser: Address, winner: Address | None) -> None:
        """Note that a member has lost a match, and who has won it, if anybody."""
        del self.left[loser], self.prizes[loser]
        self.lost += 1
        if winner is not None:
            self.prizes[winner] += 1

    def release(self, *members: Address) -> None:
        """Note that the verifier has not ruled on a match of two members."""
        for member in members:
            del self.left[member]
        self.released.update(members)

    def close(self, client: Address, status: Status) -> tuple[Counter[Address], int]:
        """Return what everybody is owed, and what is burned."""
        sharers = [member for member, shares in self.left.items() if shares]
        prize_wei = self.bond_wei // 2
        kept = (*self.left, *self.released)
        owed = Counter({m: self.bond_wei + self.prizes[m] * prize_wei for m in kept})
        if status is Status.WON and sharers:
            for member in sharers:
                owed[member] += self.reward_wei // len(sharers)
        else:
            owed[client] += self.reward_wei
        held = self.reward_wei + self.bond_wei * (self.lost + len(self.hidden) + len(kept))
        return owed, held - owed.total()
