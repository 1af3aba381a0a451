"""The least that a provider's account has to hold, by the shipped check."""

from contracts.model.types import Terms
from offchain.parties.resources import Resources
from offchain.parties.settings import Settings

MOST_WEI = 10**22


def calculate_least(settings: Settings, terms: Terms, reward_wei: int) -> int:
    """Return the least balance with which the shipped check lets a provider take a job."""
    del reward_wei
    resources = Resources(settings)
    low, high = 0, MOST_WEI
    while low < high:
        middle = (low + high) // 2
        if resources.find_obstacle(middle, terms) is None:
            high = middle
        else:
            low = middle + 1
    return low
