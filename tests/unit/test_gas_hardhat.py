"""The file for tools that read Hardhat's gas statistics."""

from moot.offchain.chain import Address, Receipt
from moot.offchain.disputes.play.game import Played
from moot.sim.gas.hardhat import make_stats
from moot.sim.gas.play import Measured
from moot.sim.gas.scenarios import ARITIES, REFERENCE
from moot.sim.gas.variants import Deployment

CONTRACTS = (Deployment("referee", 5_000_000, 24_000), Deployment("leaf", 4_000_000, 20_000))


def make_played(call: str, gas: int) -> Played:
    """Return a call that cost so much."""
    nobody = Address("0x" + "11" * 20)
    receipt = Receipt(call, nobody, "0x" + "22" * 32, 1, gas, 0, 0, gas - 21_000, 1, ())
    return Played("history", "honest-1", call, (), receipt)


def test_a_file_has_the_shape_that_hardhat_gives_it() -> None:
    """Contracts by source and name, their deployments, and the functions of the referee."""
    calls = [make_played("descend", gas) for gas in (50_000, 60_001, 80_000, 90_000)]
    measured = Measured(REFERENCE, CONTRACTS, (*calls, make_played("commit", 40_000)))
    stats = make_stats([measured, measured])
    assert list(stats) == ["contracts"]
    assert list(stats["contracts"]) == [
        "contracts/source/leaf.vy:leaf",
        "contracts/source/referee.vy:referee",
    ]
    leaf, referee = stats["contracts"].values()
    assert leaf["functions"] is None
    assert leaf["deployment"] == {
        **dict.fromkeys(("min", "max", "avg", "median"), 4_000_000),
        "count": 1,
        "runtimeSize": 20_000,
    }
    assert referee["sourceName"] == "contracts/source/referee.vy"
    assert referee["contractName"] == "referee"
    assert referee["proxyChain"] == []
    once = {"min": 40_000, "max": 40_000, "avg": 40_000, "median": 40_000, "count": 2}
    assert referee["functions"] == {
        "commit": once,
        "descend": {"min": 50_000, "max": 90_000, "avg": 70_000, "median": 70_000, "count": 8},
    }


def test_variants_of_the_contract_are_left_out() -> None:
    """A referee that was compiled for smaller openings is another contract."""
    measured = Measured(ARITIES[0], CONTRACTS, (make_played("descend", 50_000),))
    assert make_stats([measured]) == {"contracts": {}}
