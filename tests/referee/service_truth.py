"""The truth about a service, told without the model: coins that move, and facts that are noted.

Whoever stakes brings coins, and each coin knows when it may leave. What a call should answer is a
set of reasons to refuse it: if there is one, the service has to refuse it for one of these, and
else take it. In the end everybody takes what is his, and every wallet is foretold to the wei.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from moot.contracts.reasons import Reason
from moot.sim.synthetic.products import Lie

WEEK, DAY = 50_400, 7_200
LEAST_WEI = 2 * 10**17
"""The least bond of a match: 0.2 ether."""
BURNER = "burned"

Pile = list[list[int]]
"""Coins: how many wei, and after which block they may be taken; -1 of those that stand."""


@dataclass(frozen=True)
class Facts:
    """What is true of a receipt, whatever it says.

    Attributes:
        provider: who is named.
        number: of the receipt.
        stake: what backs it, in wei.
        total: of all stakes so far.
        released: of those that have ended.
        issued: the block in which it was issued.
        last: the last in which it can be challenged.
        is_signed: whether the provider has signed it for this service.
        is_sound: whether a job could have its terms.
        has_answer: whether its last state has the answer that it says.
        story: what its history says; None of one that nobody can play.
    """

    provider: str
    number: int
    stake: int
    total: int
    released: int
    issued: int
    last: int
    is_signed: bool = True
    is_sound: bool = True
    has_answer: bool = True
    story: "Story | None" = None


@dataclass(frozen=True)
class Story:
    """What a side of a match says: the truth, or a lie from a place on."""

    lie: Lie | None

    def tell(self, other: "Story") -> int:
        """Return who is right where both first differ: 0, 1, or 2 for neither."""
        places = [(s.lie.step, s.lie.operator) if s.lie else (1 << 60, 0) for s in (self, other)]
        if places[0] == places[1]:
            return 2
        return 0 if places[0] > places[1] else 1


@dataclass
class Truth:
    """All that has happened at a service.

    Attributes:
        bonds: the coins of each provider.
        balances: the coins of each client with each provider.
        paid: what each provider has had of each client.
        listed: the name of every receipt that was published, by provider and number.
        guilty: who is at fault.
        open: receipts that are being challenged.
        lost: receipts by which their providers have lost.
        wallets: what everybody has gained since the beginning, in wei.
    """

    bonds: dict[str, Pile] = field(default_factory=lambda: defaultdict(list))
    balances: dict[tuple[str, str], Pile] = field(default_factory=lambda: defaultdict(list))
    paid: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    listed: dict[str, list[object]] = field(default_factory=lambda: defaultdict(list))
    batches: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    guilty: set[str] = field(default_factory=set)
    open: set[object] = field(default_factory=set)
    lost: set[object] = field(default_factory=set)
    wallets: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    # Coins.

    def bring(self, pile: Pile, owner: str, wei: int) -> None:
        """Add coins that stand."""
        pile.append([wei, -1])
        self.wallets[owner] -= wei

    @staticmethod
    def count(pile: Pile, *, standing: bool | None = None) -> int:
        """Return the wei of a pile, of those that stand or of those that leave, or of all."""
        return sum(w for w, until in pile if standing is None or standing == (until < 0))

    def call_back(self, pile: Pile, wei: int, last: int) -> None:
        """Let coins that stand leave, and with them what leaves already."""
        left = wei
        for coin in list(pile):
            if coin[1] >= 0:
                coin[1] = last
            elif left:
                part = min(coin[0], left)
                coin[0] -= part
                left -= part
                pile.append([part, last])

    def take_away(self, pile: Pile, wei: int) -> None:
        """Remove coins, first those that stand."""
        left = wei
        for is_standing in (True, False):
            for coin in pile:
                if (coin[1] < 0) == is_standing:
                    part = min(coin[0], left)
                    coin[0] -= part
                    left -= part
        assert left == 0, "there were not so many"

    def take_left(self, pile: Pile, owner: str) -> None:
        """Give its owner what leaves."""
        self.wallets[owner] += self.count(pile, standing=False)
        pile[:] = [coin for coin in pile if coin[1] < 0]

    # Reasons to refuse a call.

    def refuse_leaving(self, pile: Pile, wei: int) -> set[Reason]:
        """Return why coins cannot be called back."""
        found = {Reason.NO_AMOUNT} if wei == 0 else set[Reason]()
        return found | ({Reason.NOT_THAT_MUCH} if wei > self.count(pile, standing=True) else set())

    def refuse_taking(self, pile: Pile, block: int) -> set[Reason]:
        """Return why coins cannot be taken."""
        left = [until for wei, until in pile if wei and until >= 0]
        if not left:
            return {Reason.NOTHING_DUE}
        return {Reason.NOT_LEFT} if block <= max(left) else set()

    def refuse_challenge(
        self, name: object, facts: Facts, block: int, *, is_other: bool, by: str
    ) -> set[Reason]:
        """Return why a receipt cannot be challenged, for its own sake or its provider's."""
        checks = {
            Reason.ABSURD_RECEIPT: facts.is_sound,
            Reason.BAD_SIGNATURE: facts.is_signed,
            Reason.RECEIPT_PAST: block <= facts.last,
            Reason.BEING_CHALLENGED: name not in self.open,
            Reason.HAS_LOST: name not in self.lost,
            Reason.BOND_EXHAUSTED: self.count(self.bonds[facts.provider]) >= LEAST_WEI,
            Reason.NO_DISPUTE: is_other,
            Reason.ALREADY_JOINED: by != facts.provider,
        }
        return {reason for reason, is_kept in checks.items() if not is_kept}

    def get_match_bond(self, facts: Facts) -> int:
        """Return what each side of a match about a receipt risks."""
        return min(max(LEAST_WEI, facts.stake), self.count(self.bonds[facts.provider]))

    def punish(self, provider: str, reporter: str) -> None:
        """Take all that a provider has: half for the reporter, the odd wei burned."""
        wei = self.count(self.bonds[provider])
        self.wallets[reporter] += wei // 2
        self.wallets[BURNER] += wei - wei // 2
        self.bonds[provider].clear()
        self.guilty.add(provider)


def do_contradict(first: Facts, second: Facts) -> bool:
    """Whether no honest book has both of these receipts, which are not the same one."""
    low, high = sorted((first, second), key=lambda it: it.number)
    between = high.number - low.number - 1
    if between < 0:
        return True
    others = high.total - high.stake - low.total
    if others < 0 or (between == 0 and others != 0):
        return True
    had_ended = low.last < high.issued
    says_ended = low.total <= high.released
    return says_ended and not had_ended
