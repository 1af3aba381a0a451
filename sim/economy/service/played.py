"""Money that is played: what drawn providers' receipts move, again on the model of `service.vy`.

After every move the model has to hold what the market's books say: bonds, balances, and what
winners of matches and reporters of faults are paid, to the wei.
"""

from collections import Counter
from collections.abc import Sequence

from coincurve import PrivateKey

from moot.contracts.model import challenges, service
from moot.contracts.model.bonds import Batch, Service
from moot.contracts.model.receipts import Receipt, Voucher, hash_announcement
from moot.contracts.model.service_invariants import check_service
from moot.contracts.model.types import MIN_BOND_WEI, ZERO, Address, Event, Message, Store
from moot.contracts.reasons import Revert
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import MootError
from moot.sim.economy.config import GWEI
from moot.sim.economy.prices import Prices
from moot.sim.economy.service.affairs import CONFLICT, Affair
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.matches import make_run, play_match
from moot.sim.economy.service.moves import Moves
from moot.sim.economy.service.signed import Pair, Signed
from moot.sim.economy.streams import Stream

SALT = b"\x5a" * 32


class OtherMoneyError(MootError):
    """The model of the service holds or pays something else than the market's books say."""


class Played(Moves):
    """Whoever plays the moves of drawn providers again.

    Args:
        share: of the providers that are drawn.
        seed: of the run.
        prices: know the current block.

    Attributes:
        calls: how often each call was made.
    """

    def __init__(self, share: float, seed: int, prices: Prices) -> None:
        self._share, self._seed, self._prices = share, seed, prices
        self._store = Store(1, "0x" + "c1" * 20)
        self._service = Service("0x" + "c2" * 20, self._store)
        self._drawn: dict[int, bool] = {}
        self._keys: dict[int, tuple[Address, PrivateKey]] = {}
        self._owed: Counter[tuple[int, int]] = Counter()
        self._listed: dict[int, list[Digest]] = {}
        self._batches: dict[int, list[tuple[Batch, Tree]]] = {}
        self._open: dict[int, tuple[int, tuple[Event, ...], bool]] = {}
        self.calls: Counter[str] = Counter()

    def is_drawn(self, house: House) -> bool:
        """Whether a provider's moves are played."""
        number = house.agent.number
        if number not in self._drawn:
            stream = Stream(self._seed, "played receipts", number)
            self._drawn[number] = stream.draw() < self._share
        return self._drawn[number]

    def stake(self, house: House, amount_gwei: int) -> None:
        """Stake on the model."""
        if self.is_drawn(house):
            self._call("stake", house.agent.number, value_gwei=amount_gwei)
            self._compare(house)

    def leave(self, house: House) -> None:
        """Let the bond leave on the model; it stays liable."""
        if self.is_drawn(house):
            self._call("unstake", house.agent.number, house.bond_gwei * GWEI)
            self._compare(house)

    def fund(self, client: int, house: House, amount_gwei: int, balance_gwei: int) -> None:
        """Fund on the model."""
        if self.is_drawn(house):
            self._call("fund", client, self._name(house.agent.number), value_gwei=amount_gwei)
            self._compare_balance(client, house, balance_gwei)

    def redeem(self, client: int, house: House, amount_gwei: int, balance_gwei: int) -> None:
        """Redeem a cumulative voucher on the model."""
        if not self.is_drawn(house):
            return
        provider = house.agent.number
        self._owed[client, provider] += amount_gwei
        total_wei = self._owed[client, provider] * GWEI
        voucher = Voucher(self._name(client), self._name(provider), total_wei)
        signature = self._sign(voucher.hash(self._service.domain), client)
        events = self._call("redeem", provider, self._name(client), total_wei, signature)
        self._require(events[-1].args[2] == amount_gwei * GWEI, "pays another voucher")
        self._compare_balance(client, house, balance_gwei)

    def sign(self, affair: Affair) -> None:
        """Keep the digest of a receipt that will be published."""
        if self.is_drawn(affair.house) and not affair.signed.chain:
            digest = self._make_receipt(affair, affair.signed).hash(self._service.domain)
            self._listed.setdefault(affair.house.agent.number, []).append(digest)

    def publish(self, house: House, count: int) -> None:
        """Publish on the model."""
        if self.is_drawn(house):
            provider, first = house.agent.number, house.published
            listed = self._listed[provider][first : first + count]
            tree = Tree(Tag.RECEIPT_NODE, listed)
            self._call("publish", provider, first, count, tree.top)
            batch = Batch(first, count, tree.top)
            self._batches.setdefault(provider, []).append((batch, tree))

    def challenge(self, affair: Affair, challenger: int, bond_gwei: int, *, is_lie: bool) -> None:
        """Challenge a receipt on the model, by another run."""
        if not self.is_drawn(affair.house):
            return
        receipt = self._make_receipt(affair, affair.signed)
        top = make_run(1 if is_lie else None).history.top
        self._announce(challenger, receipt, top)
        args = (receipt, self._sign_receipt(receipt, affair.house.agent.number), top, SALT)
        value_gwei = max(MIN_BOND_WEI // GWEI, affair.signed.stake)
        self._call("challenge", challenger, *args, value_gwei=value_gwei, later=1)
        job_id = len(self._store.jobs) - 1
        self._require(
            self._store.jobs[job_id].terms.bond_wei == bond_gwei * GWEI, "has another bond in it"
        )
        self._open[affair.job.number] = (job_id, tuple(self._store.events), is_lie)
        self._compare(affair.house)

    def settle(self, affair: Affair, challenger: int, bond_gwei: int, fate: str) -> None:
        """Play the match on the model, and compare what both are paid."""
        if not self.is_drawn(affair.house):
            return
        job_id, events, is_lie = self._open.pop(affair.job.number)
        provider = affair.house.agent.number
        runs = {
            self._name(provider): make_run(0 if affair.is_lie else None),
            self._name(challenger): make_run(1 if is_lie else None),
        }
        block = play_match(self._store, job_id, runs, events)
        won_wei = (bond_gwei + bond_gwei // 2) * GWEI
        for agent, is_winner in ((provider, fate == "won"), (challenger, fate == "lost")):
            paid_wei = self._collect(self._name(agent), job_id, block)
            self._require(paid_wei == won_wei * is_winner, "pays for another end of a match")
        check_service(self._service)

    def fault(self, affair: Affair, reporter: int, found: tuple[str, int], pair: Pair) -> None:
        """Prove a fault on the model."""
        if not self.is_drawn(affair.house):
            return
        provider, (finding, prize_gwei) = affair.house.agent.number, found
        first, second = (self._make_receipt(affair, each) for each in pair)
        if finding == CONFLICT:
            self._announce(reporter, first, second.hash(self._service.domain))
            signed = (self._sign_receipt(it, provider) for it in (first, second))
            events = self._call("prove_conflict", reporter, (first, second), *signed, SALT, later=1)
        else:
            batches = self._batches[provider]
            batch, tree = next(it for it in batches if first.number < it[0].first + it[0].count)
            listed = self._listed[provider][first.number]
            proof = tree.proof(first.number - batch.first)
            self._announce(reporter, first, listed)
            shown = (first, self._sign_receipt(first, provider), batch, listed, proof, SALT)
            events = self._call("prove_unlisted", reporter, *shown, later=1)
        self._require(events[-1].args[4] == prize_gwei * GWEI, "pays another prize")
        self._compare(affair.house)

    def finish(self) -> None:
        """Check all that holds of the model."""
        check_service(self._service)

    def _call(
        self, name: str, agent: int, *args: object, value_gwei: int = 0, later: int = 0
    ) -> Sequence[Event]:
        """Make a call of an agent on the model."""
        message = Message(self._name(agent), value_gwei * GWEI, self._prices.block + later)
        self.calls[name] += 1
        self._store.events = []
        try:
            return service.call(self._service, name, message, *args)
        except Revert as refusal:
            raise OtherMoneyError(f"the service refuses {name}: {refusal}") from refusal

    def _announce(self, agent: int, receipt: Receipt, shown: Digest) -> None:
        """Announce a call about a receipt, and what it brings."""
        domain = self._service.domain
        subject = (receipt.hash(domain), shown)
        self._call("commit", agent, hash_announcement(domain, self._name(agent), subject, SALT))

    def _collect(self, account: Address, job_id: int, block: int) -> int:
        """Return what a member is paid by a job that is closed."""
        before_wei = self._store.balance_wei
        try:
            challenges.call(self._store, "collect", Message(account, 0, block), job_id)
        except Revert:
            return 0
        return before_wei - self._store.balance_wei

    def _compare(self, house: House) -> None:
        """Compare a provider's bond."""
        held_wei = self._service.get_stake(self._name(house.agent.number)).all_wei
        self._require(held_wei == house.bond_gwei * GWEI, "holds another bond")

    def _compare_balance(self, client: int, house: House, balance_gwei: int) -> None:
        """Compare a client's balance with a provider."""
        place = (self._name(client), self._name(house.agent.number))
        held_wei = self._service.funds[place].all_wei
        self._require(held_wei == balance_gwei * GWEI, "holds another balance")

    def _require(self, is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition
        if not is_so:
            raise OtherMoneyError(
                f"block {self._prices.block}: the model of the service {otherwise} than the "
                "market's books have"
            )

    def _name(self, agent: int) -> Address:
        """Return the address of an agent."""
        return self._find(agent)[0]

    def _find(self, agent: int) -> tuple[Address, PrivateKey]:
        if agent not in self._keys:
            key = PrivateKey(keccak256(f"agent {agent}".encode()))
            name = keccak256(key.public_key.format(compressed=False)[1:])[-20:]
            self._keys[agent] = ("0x" + name.hex(), key)
        return self._keys[agent]

    def _sign(self, digest: Digest, agent: int) -> bytes:
        signed = self._find(agent)[1].sign_recoverable(digest, hasher=None)
        return signed[:64] + bytes([27 + signed[64]])

    def _sign_receipt(self, receipt: Receipt, agent: int) -> bytes:
        return self._sign(receipt.hash(self._service.domain), agent)

    def _make_receipt(self, affair: Affair, signed: Signed) -> Receipt:
        """Return a receipt as it is signed; what a chain's own ones answer is of that chain."""
        run = make_run(0 if affair.is_lie else None)
        terms = make_terms(run.task)
        return Receipt(
            layout=terms.layout,
            program_top=terms.program_top,
            start_root=terms.start_root,
            data_top=terms.data_top,
            history=run.history.top,
            answer=keccak256(f"chain {signed.chain}".encode()) if signed.chain else ZERO,
            operators=terms.operators,
            state_slots=terms.state_slots,
            batch_slots=terms.batch_slots,
            answer_slot=0,
            steps=terms.steps,
            checkpoint_every=terms.checkpoint_every,
            window_blocks=20,
            clock_blocks=64,
            increment_blocks=3,
            client=self._name(affair.client.number),
            provider=self._name(affair.house.agent.number),
            number=signed.number,
            issued_block=signed.issued,
            last_block=signed.last,
            stake_wei=signed.stake * GWEI,
            total_wei=signed.total * GWEI,
            released_wei=signed.released * GWEI,
            price_wei=affair.job.price_gwei * GWEI,
        )
