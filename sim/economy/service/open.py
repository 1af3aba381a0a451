"""The opening of the desk of jobs by receipt, in a market that has any."""

from collections.abc import Callable

from moot.sim.economy.config import Config
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.mechanisms.base import Matching, Reputing
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.population import Population
from moot.sim.economy.prices import Prices
from moot.sim.economy.reporting import Clerk
from moot.sim.economy.service.desk import Desk
from moot.sim.economy.service.endings import Endings
from moot.sim.economy.service.scribe import Scribe
from moot.sim.economy.service.till import Till
from moot.sim.economy.service.trials import Trials


def open_desk(
    config: Config,
    outcomes: Outcomes,
    people: Population,
    clerk: Clerk,
    money: tuple[Ledger, Prices],
    rules: tuple[Matching, Reputing],
    put: Callable[[int, int], None],
) -> Desk:
    """Return the desk of a market.

    Args:
        config: what is configured.
        outcomes: say what matches come to.
        people: who is there.
        clerk: keeps the books.
        money: where it is, and the price of gas.
        rules: of matching and reputation.
        put: puts an event on the agenda, by block and number.
    """
    ledger, prices = money
    scribe = Scribe(clerk.run, clerk.sink, clerk)
    till = Till(config, ledger, prices, scribe)
    if config.fidelity == "mixed":
        from moot.sim.economy.service.played import Played  # noqa: PLC0415 - imports the contracts

        till.moves = Played(config.sample, config.seed, prices)
    matching, reputing = rules
    endings = Endings(people, till, reputing)
    return Desk(config, people, till, Trials(outcomes), matching, endings, put)
