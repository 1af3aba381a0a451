"""The settings of jobs by receipt: the key `service` of a configuration."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Shown = Literal["receipt", "chain", "batch", "word"]
"""What a client is shown before it relies on an answer and pays for it."""

CONTRACT_BOND_ETH = 0.2
"""The least bond of a match, as the contract has it."""

Amount = Annotated[float, Meta(ge=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Service(Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs by receipt: requests, what backs their answers, and who looks.

    Attributes:
        requests_per_block: of all clients together, as a Poisson process of its own beside the
            jobs by auction; 0 for none.
        tokens: median of how many an answer has.
        token_spread: standard deviation of the logarithm of that.
        price_gwei: what a token costs the client.
        work_gwei: what it costs the provider to compute one.
        cheap_share: which share of that a lie costs: an answer by a cheaper model.
        check_share: which share of it a check costs: one pass over tokens that are there.
        value_gwei: what a token of a right answer is worth to the client; what a wrong one costs
            it, and brings the liar, are `clients.loss_share` and `gain_share` of that.
        stake_eth: what each receipt is backed with.
        bond_eth: what each provider deposits as its standing bond.
        min_bond_eth: the least that goes into a challenge, from either side; the contract's is 0.2.
        window_blocks: for how long a receipt can be challenged.
        shown: what a client is shown: its own `receipt`, the signed `chain` of all before it too,
            a published `batch` that has it, or the `word` of a watcher that it has seen no other
            receipt with this number.
        word_gwei: what a watcher's word costs the client.
        publish_every: blocks from a provider's first receipt that is not published to the batch
            that has it; 0 for none.
        client_checks: which share of their answers clients check before they pay.
        sample_rate: how often each receipt is handed to some watcher for a check, per block of its
            window, of all watchers together.
        redeem_every: answers for a client after which its voucher is redeemed.
        fund_answers: for how many median answers a client deposits at once, with each provider.
    """

    requests_per_block: Amount = 0.0
    tokens: Annotated[int, Meta(ge=1, le=10**6)] = 500
    token_spread: Annotated[float, Meta(ge=0, le=3)] = 0.5
    price_gwei: Amount = 40.0
    work_gwei: Amount = 20.0
    cheap_share: Share = 0.1
    check_share: Share = 0.3
    value_gwei: Amount = 100.0
    stake_eth: Annotated[float, Meta(gt=0, le=1e6)] = 0.001
    bond_eth: Amount = 2.0
    min_bond_eth: Amount = CONTRACT_BOND_ETH
    window_blocks: Annotated[int, Meta(ge=1, le=50_400)] = 300
    shown: Shown = "receipt"
    word_gwei: Amount = 0.0
    publish_every: Annotated[int, Meta(ge=0, le=10**6)] = 0
    client_checks: Share = 0.0
    sample_rate: Share = 0.0
    redeem_every: Annotated[int, Meta(ge=1, le=10**6)] = 1000
    fund_answers: Annotated[int, Meta(ge=1, le=10**6)] = 2000


def find_fault(service: Service, fidelity: str) -> str | None:
    """Return why settings are impossible together; None if they are not."""
    if not service.requests_per_block:
        return None
    if fidelity == "played":
        return 'jobs by receipt are modelled; set fidelity = "modelled" or "mixed"'
    if fidelity == "mixed" and service.min_bond_eth != CONTRACT_BOND_ETH:
        return (
            f"money is played with the contract's least bond of {CONTRACT_BOND_ETH:g} ETH, and "
            f"service.min_bond_eth is {service.min_bond_eth:g}; set it to that, or "
            'fidelity = "modelled"'
        )
    if service.stake_eth > service.bond_eth:
        return (
            f"a receipt is backed with {service.stake_eth:g} ETH, and a standing bond is "
            f"{service.bond_eth:g} ETH; raise service.bond_eth, or lower service.stake_eth"
        )
    return _find_late_batch(service) if service.shown == "batch" else None


def _find_late_batch(service: Service) -> str | None:
    """Return why clients who wait for batches would wait in vain; None if they would not."""
    if not service.publish_every:
        return "clients wait for batches that nobody publishes; set service.publish_every above 0"
    if service.publish_every >= service.window_blocks:
        return (
            f"a batch comes after {service.publish_every} blocks, when the window of "
            f"{service.window_blocks} is over; lower service.publish_every"
        )
    return None
