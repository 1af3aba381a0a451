"""Closed forms beside what is simulated: what lying on receipts brings by `sim/theory/receipts.py`.

They are about jobs by receipt alone. Where there are jobs by auction, too, attackers lie in them as
well, and the simulated value is of both.
"""

import math
from collections.abc import Callable

from moot.sim.analysis.break_even import HALVINGS, Range
from moot.sim.economy.config import GWEI, Config, Group
from moot.sim.economy.deals import price_gas
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.service.trials import Trials
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.economy.strategies.cartel import NAME as CARTEL
from moot.sim.economy.strategies.exit_scam import ExitScam
from moot.sim.strategies import is_conduct
from moot.sim.theory.receipts import Answer, Scam, Watch, calculate_gain, calculate_scam

SCAM = "exit-scam"
TRUTHFUL = frozenset({WATCHER, "rational-watcher"})
"""Strategies of watchers that check what they are handed; the second as long as it pays."""

_STEPS = 4 * HALVINGS


def has_form(config: Config, strategy: str) -> bool:
    """Return whether there is a closed form of an attack: on receipts, by a liar or a scam."""
    is_liar = strategy in (CARTEL, SCAM) or (strategy != HONEST and is_conduct(strategy))
    return bool(config.service.requests_per_block) and is_liar


def make_answer(config: Config, outcomes: Outcomes, conduct: str) -> Answer:
    """Return the money of the mean answer of a market, in gwei.

    Args:
        config: the market.
        outcomes: say what calls a match takes.
        conduct: of the liar.
    """
    service, clients = config.service, config.clients
    tokens = service.tokens * math.exp(service.token_spread**2 / 2)
    price_wei = round((config.chain.base_fee_gwei + config.chain.tip_gwei) * GWEI)
    trials = Trials(outcomes)
    played = [trials.judge(conduct, WATCHER, number) for number in range(config.cases)]
    return Answer(
        price=tokens * service.price_gwei,
        saving=tokens * service.work_gwei * (1 - service.cheap_share),
        gain=tokens * service.value_gwei * clients.gain_share,
        stake=service.stake_eth * GWEI,
        least=service.min_bond_eth * GWEI,
        defence=sum(price_gas(it.provider_gas, price_wei) for it in played) / len(played),
    )


def make_watch(config: Config) -> Watch:
    """Return how often the answers of a market are checked, by those who tell the truth."""
    service = config.service
    there = [group for group in config.watchers for _ in range(group.count)]
    honest = [group for group in there if group.strategy in TRUTHFUL]
    share = len(honest) / len(there) if there else 0.0
    check = sum(group.blocks for group in honest) / len(honest) if honest else 0.0
    clients = min(service.client_checks, 1 - 1e-9)
    return Watch(service.sample_rate * share, service.window_blocks, check, clients)


def make_scam(config: Config, group: Group) -> tuple[Scam, ExitScam]:
    """Return the over-commitment of a market's exit scams, and their strategy.

    It lies no more often than its bond backs on all of its chains within one window.
    """
    strategy = ExitScam(**group.parameters)  # type: ignore[arg-type]
    there = sum(it.count for it in config.watchers)
    honest = sum(it.count for it in config.watchers if it.strategy in TRUTHFUL)
    chains = strategy.chains if strategy.way == "forks" else 1
    service = config.service
    lies = min(strategy.lies, chains * math.floor(service.bond_eth / service.stake_eth + 1e-9))
    scam = Scam(lies, chains, service.bond_eth * GWEI, service.shown, honest, there)
    return scam, strategy


def calculate(config: Config, outcomes: Outcomes, strategy: str) -> float:
    """Return what an attacker gains beyond honesty, in ETH for each job that it has as honest.

    An exit scam forgoes what answers pay that it would have given after its last lie.
    """
    groups = [group for group in config.providers if group.strategy == strategy]
    group, watch = groups[0], make_watch(config)
    conduct = str(group.parameters.get("conduct", strategy if is_conduct(strategy) else "lazy"))
    answer = make_answer(config, outcomes, conduct)
    if strategy != SCAM:
        rate = float(group.parameters.get("rate", 1.0))
        return rate * calculate_gain(answer, watch) / GWEI
    scam, parameters = make_scam(config, group)
    service = config.service
    providers = sum(it.count for it in config.providers)
    share = service.requests_per_block
    share /= service.requests_per_block + config.clients.jobs_per_block
    jobs = config.jobs * share / providers
    tokens = service.tokens * math.exp(service.token_spread**2 / 2)
    margin = tokens * (service.price_gwei - service.work_gwei)
    forgone = max(0.0, jobs - parameters.honest - parameters.lies) * margin
    return (calculate_scam(scam, answer, watch) - forgone) / jobs / GWEI


def find_crossing(config: Config, outcomes: Outcomes, place: Range, strategy: str) -> float | None:
    """Return where an attack breaks even by its closed form; None if it has one sign at both ends.

    Args:
        config: the market.
        outcomes: say what calls a match takes.
        place: the key and its range.
        strategy: the attack.
    """

    def gain(value: float) -> float:
        return calculate(place.put(config, value), outcomes, strategy)

    return _halve(gain, place.low, place.high)


def _halve(gain: Callable[[float], float], low: float, high: float) -> float | None:
    """Return where a gain changes its sign, by bisection."""
    pays = gain(low) > 0
    if pays == (gain(high) > 0):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if (gain(middle) > 0) == pays else (low, middle)
    return (low + high) / 2
