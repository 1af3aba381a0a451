"""The configuration of a simulated market: a TOML file, read strictly.

Every key has a default, so that a file says only what is different. Amounts are in ETH, times in
blocks, rates per job unless a name says otherwise.
"""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from moot.offchain.errors import UsageError
from moot.sim.chains.chain import USUAL
from moot.sim.economy.service.settings import Service, find_fault

GWEI = 10**9
"""The number of gwei in an ETH."""

AUTO: Final = "auto"
"""The burn-in that depends on whether somebody learns."""

IN_PROCESS = "tester"
"""The chain that is py-evm in this process."""

Amount = Annotated[float, Meta(ge=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=10**5)]
Positive = Annotated[float, Meta(gt=0, le=1e6)]
BLOCKS_A_YEAR = 2_628_000
"""Blocks of 12 seconds in a year of 365 days."""

MOST_BLOCKS = 10**8
"""How long a run may be: four decades."""
Mechanism = dict[str, str | int | float | bool]
"""A mechanism's name, as `name`, and its parameters."""

RULES = ("pricing", "matching", "bond", "audit", "reputation")
"""The keys of the mechanisms."""


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """The program that every job is about, and its length.

    Attributes:
        name: an example such as `gpt2`, or `path/to/file.py:function`.
        size: `tiny`, `small` or `full`, of an example.
        steps: how many a job has.
        checkpoint_every: steps from one committed state to the next.
        arithmetic: `ordered`, `exact`, `hopper` or `ampere`.
        backend: what computes played jobs: `cpu`, `cuda` or `cuda-emulator`; the results do not
            depend on it.
        data: a text file for an example that learns a language; empty for its own.
        precision: `fp32` or `bf16`.
        inference: whether a job is one forward pass instead of training; it has one step then.
        trust_capture: whether the first steps are not compared with eager torch.
    """

    name: str = "mlp"
    size: str = "tiny"
    steps: Annotated[int, Meta(ge=1, le=10**6)] = 6
    checkpoint_every: Annotated[int, Meta(ge=1, le=10**6)] = 3
    arithmetic: str = "ordered"
    backend: str = "cpu"
    data: str = ""
    precision: str = "fp32"
    inference: bool = False
    trust_capture: bool = False


class Chain(Struct, frozen=True, forbid_unknown_fields=True):
    """The chain: where games are played, what gas costs, and what keeping a call out of it does.

    Attributes:
        url: of the node on which games are played; `tester` is py-evm in this process.
        kind: whose rules say what a call costs: a chain that `moot gas chains` lists, or the file
            of one; its base fee and tip are those below.
        base_fees: a trace of the base fee, by its name or file: that of each block, whatever demand
            there is; empty for one that follows demand.
        base_fee_gwei: the base fee (EIP-1559) at the start; demand is such that it stays near it.
        tip_gwei: what everybody pays above it.
        volatility: standard deviation of the logarithm of a block's demand.
        spike_factor: how much higher demand is during a spike.
        spike_every: blocks from the beginning of one spike to that of the next; 0 for none.
        spike_blocks: how long a spike lasts.
        censor_eth: what a builder asks for keeping a call out of one block.
        fee_cap: a call pays at most so many times the price of its job's arrival; where a block
            is dearer it waits, and its clock runs.
        gas_reserve: agents lock for gas so many times what it costs at their job's arrival, but no
            more than `fee_cap`; what is dearer they pay from money that is free.
    """

    url: str = IN_PROCESS
    kind: str = USUAL
    base_fees: str = ""
    base_fee_gwei: Annotated[float, Meta(ge=1e-6, le=1e5)] = 20.0
    tip_gwei: Annotated[float, Meta(ge=0, le=1e5)] = 1.0
    volatility: Annotated[float, Meta(ge=0, le=5)] = 0.2
    spike_factor: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    spike_every: Count = 0
    spike_blocks: Count = 0
    censor_eth: Amount = 0.1
    fee_cap: Annotated[float, Meta(ge=1, le=1000)] = 4.0
    gas_reserve: Annotated[float, Meta(ge=1, le=1000)] = 4.0


class Clients(Struct, frozen=True, forbid_unknown_fields=True):
    """The clients: how many there are, how often they have a job, and what it is worth to them.

    Attributes:
        count: how many there are.
        capital_eth: what each brings.
        arrivals: a trace of the blocks in which jobs arrive, by its name or file, and of what they
            are worth, if it has that; empty for jobs that are drawn.
        jobs_per_block: of all of them together; jobs arrive as a Poisson process. 0 for none by
            auction, where there are jobs by receipt.
        value_eth: median of what a right answer is worth.
        value_spread: standard deviation of its logarithm.
        loss_share: what a wrong answer that is accepted costs, as a multiple of that.
        gain_share: what it gives the provider that has placed it, likewise.
    """

    count: Annotated[int, Meta(ge=1, le=10**5)] = 10
    capital_eth: Amount = 10_000.0
    arrivals: str = ""
    jobs_per_block: Amount = 0.5
    value_eth: Positive = 0.5
    value_spread: Annotated[float, Meta(ge=0, le=3)] = 0.3
    loss_share: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    gain_share: Annotated[float, Meta(ge=0, le=1000)] = 0.0


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of agents with one strategy.

    Attributes:
        strategy: a name of `moot market --help`, or `path/to/file.py:Class`.
        count: how many agents there are of it at the beginning.
        capital_eth: what each brings.
        work_eth: what it costs each to run a job as agreed, or to check one.
        blocks: how long that takes.
        slots: how many jobs each runs at once; one that is run in part, or not at all, holds its
            slot for that part of `blocks`.
        parameters: of the strategy.
    """

    strategy: str
    count: Count = 1
    capital_eth: Amount = 50.0
    work_eth: Amount = 0.02
    blocks: Annotated[int, Meta(ge=1, le=10**6)] = 50
    slots: Annotated[int, Meta(ge=1, le=10**6)] = 8
    parameters: dict[str, str | int | float | bool] = {}


class Watchers(Group, frozen=True, forbid_unknown_fields=True):
    """A number of watchers with one strategy.

    Attributes:
        blocks: how long a check takes, from the block in which claims are shown: up to 24 delay
            nothing, and with more than 39 it is too late to challenge a claim.
    """

    blocks: Annotated[int, Meta(ge=1, le=10**6)] = 24


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """How providers come and go.

    Attributes:
        per_1000_blocks: how many new providers come, each like one of those of the beginning.
        patience: jobs after which a provider that has lost money leaves; 0 for never.
    """

    per_1000_blocks: Annotated[float, Meta(ge=0, le=1e5)] = 0.0
    patience: Count = 0


class Capital(Struct, frozen=True, forbid_unknown_fields=True):
    """The price of capital: what it costs to have money locked in open jobs.

    Attributes:
        rate: what providers and watchers pay for it: a share of it for a year of 2,628,000 blocks.
    """

    rate: Annotated[float, Meta(ge=0, le=1000)] = 0.0


class Hardware(Struct, frozen=True, forbid_unknown_fields=True):
    """The price of hardware, which moves what all work costs.

    Attributes:
        prices: a trace of factors by which each `work_eth` is multiplied, by its file; empty for
            work that always costs the same.
    """

    prices: str = ""


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a run.

    Attributes:
        seed: source of all that is drawn.
        jobs: how many arrive.
        fidelity: `modelled` takes what a dispute comes to from a table of cases, `played` plays
            every job on a chain, `mixed` plays a sample of the modelled disputes, too, and fails
            if one disagrees.
        sample: which share of the disputes a mixed run plays.
        cases: how many cases the table has of every lineup.
        seats: how many providers run each job.
        watchers_asked: how many watchers are asked about each job that is to be audited; what they
            are paid is divided among them.
        moves_of_games: of how many games each move is written down.
        burn_in: which share of the jobs, the first ones, no sum counts, in twentieths; `auto` is
            half of them where a strategy learns and not all is played, and none elsewhere.
        program: what every job is about.
        chain: what gas costs, and silence.
        clients: who have the jobs.
        entry: how providers come and go.
        capital: what locked money costs its owner.
        hardware: what work costs, over time.
        service: requests that are answered with a receipt, beside the jobs by auction.
        pricing: who of those who are asked gets a job, and what it is paid.
        matching: who is asked.
        bond: how much a provider locks for each account.
        audit: how often a watcher is asked to check, and who pays for it.
        reputation: how a provider's name changes.
        providers: groups of providers.
        watchers: groups of watchers.
    """

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    jobs: Annotated[int, Meta(ge=1, le=10**9)] = 10_000
    fidelity: Literal["modelled", "played", "mixed"] = "modelled"
    sample: Share = 0.1
    cases: Annotated[int, Meta(ge=1, le=1000)] = 4
    seats: Annotated[int, Meta(ge=1, le=8)] = 1
    watchers_asked: Annotated[int, Meta(ge=1, le=64)] = 1
    moves_of_games: Count = 20
    burn_in: Annotated[float, Meta(ge=0, le=0.95)] | Literal["auto"] = AUTO
    program: Program = field(default_factory=Program)
    chain: Chain = field(default_factory=Chain)
    clients: Clients = field(default_factory=Clients)
    entry: Entry = field(default_factory=Entry)
    capital: Capital = field(default_factory=Capital)
    hardware: Hardware = field(default_factory=Hardware)
    service: Service = field(default_factory=Service)
    pricing: Mechanism = field(default_factory=lambda: {"name": "posted"})
    matching: Mechanism = field(default_factory=lambda: {"name": "random"})
    bond: Mechanism = field(default_factory=lambda: {"name": "constant"})
    audit: Mechanism = field(default_factory=lambda: {"name": "constant"})
    reputation: Mechanism = field(default_factory=lambda: {"name": "decaying"})
    providers: tuple[Group, ...] = (Group("honest", 16), Group("lazy", 4))
    watchers: tuple[Watchers, ...] = (Watchers("watcher", 2),)


def parse_config(values: Mapping[str, Any], source: str) -> Config:
    """Return the configuration with these values.

    Args:
        values: as a TOML file has them.
        source: what an error begins with.

    Raises:
        UsageError: a key is unknown, or a value impossible.
    """
    _check_keys(values, Config, source, "")
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        key = where.strip("`").lstrip(".") or "the file"
        what = f"{what[0].lower()}{what[1:]}".replace("`", "")
        if what.startswith("invalid enum value"):
            choices = _list_choices(_find_hint(key))
            what += f"; choose one of {', '.join(map(str, choices))}"
        place = source if source.endswith(f" {key}") else f"{source}: {key}"
        raise UsageError(f"{place}: {what}") from None
    _check_sense(config, source)
    _check_service(config, source)
    return config


def _find_hint(key: str) -> object:
    """Return the type of a dotted key of a configuration."""
    hint: object = Config
    for name in key.split("."):
        struct = _find_struct(hint)
        hint = get_type_hints(struct).get(name) if struct else None
    return hint


def _list_choices(hint: object) -> list[str]:
    """Return the words that a key may have."""
    inner = get_args(hint)
    return [it for it in inner if isinstance(it, str)] or [w for it in inner for w in get_args(it)]


def load_config(path: Path) -> Config:
    """Return the configuration of a TOML file.

    Raises:
        UsageError: it can't be read, or is no configuration.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    return parse_config(values, str(path))


def show_config(config: Config) -> dict[str, Any]:
    """Return a configuration as plain values, defaults included."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    return values


def replace_key(config: Config, key: str, value: object) -> Config:
    """Return a configuration with one value replaced; as `replace_keys` does."""
    return replace_keys(config, {key: value})


def replace_keys(config: Config, values: Mapping[str, object]) -> Config:
    """Return a configuration with several values replaced, in whichever order they are given.

    A rule with another name begins with its own defaults: the parameters of the rule that it
    replaces are dropped, and those that are given for it are taken.

    Args:
        config: the configuration.
        values: by keys such as `seed`, `bond.eth`, `chain.tip_gwei`, or `providers.lazy.count`: a
            key of the group with that strategy, which is added if there is none.

    Raises:
        UsageError: there is no such key, or the values are impossible together.
    """
    if not values:
        return config
    plain = show_config(config)
    for key, value in sorted(values.items(), key=lambda item: not _is_name_of_rule(item[0])):
        _put(plain, key, value)
    return parse_config(plain, f"--set {', '.join(values)}")


def has_whole_numbers(config: Config, key: str) -> bool:
    """Return whether a key of a configuration, such as `jobs`, can be a whole number alone."""
    value: object = show_config(config)
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return type(value) is int


def _put(values: dict[str, Any], key: str, value: object) -> None:
    """Replace one value of a configuration as plain values."""
    first, *others = key.split(".")
    if first in ("providers", "watchers"):
        if len(others) < 2:
            raise UsageError(
                f"--set {key} does not say of which group; write {first}.STRATEGY.KEY, such as "
                f"{first}.{values[first][0]['strategy'] if values[first] else 'honest'}.count"
            )
        values[first] = [dict(group) for group in values[first]]
        _put_in_groups(values[first], ".".join(others[:-1]), others[-1], value)
    elif others:
        if not isinstance(values.get(first), dict):
            tables = [name for name, it in values.items() if isinstance(it, dict)]
            raise UsageError.unknown("table in --set", first, tables, "tables")
        inner = ".".join(others)
        is_renamed = _is_name_of_rule(key) and value != values[first].get("name")
        values[first] = {**({} if is_renamed else values[first]), inner: value}
    else:
        values[first] = value


def _put_in_groups(groups: list[Any], strategy: str, place: str, value: object) -> None:
    """Replace one value of the group with a strategy, which is added if there is none."""
    chosen = [group for group in groups if group["strategy"] == strategy]
    if not chosen:
        chosen = [{"strategy": strategy}]
        groups += chosen
    for group in chosen:
        if place in Group.__struct_fields__:
            group[place] = value
        else:
            group["parameters"] = {**group.get("parameters", {}), place: value}


def _is_name_of_rule(key: str) -> bool:
    first, _, rest = key.partition(".")
    return first in RULES and rest == "name"


def _check_keys(values: object, kind: type[Struct], source: str, place: str) -> None:
    """Refuse a key that does not exist, with the nearest that does."""
    if not isinstance(values, Mapping):
        return
    hints = get_type_hints(kind)
    for key, value in values.items():
        if key not in hints:
            raise UsageError.unknown(
                f"key in {source}", f"{place}{key}", [f"{place}{h}" for h in hints], "keys"
            )
        inner = _find_struct(hints[key])
        several = value if isinstance(value, list | tuple) else [value]
        if inner is not None:
            for one in several:
                _check_keys(one, inner, source, f"{place}{key}.")


def _find_struct(hint: object) -> type[Struct] | None:
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Struct):
            return kind
    return None


def _check_sense(config: Config, source: str) -> None:
    """Refuse what no market can be."""
    for number in _list_numbers(show_config(config)):
        if not math.isfinite(number):
            raise UsageError(f"{source}: {number} is not a number that a market can have")
    total = sum(group.count for group in config.providers)
    if not total:
        raise UsageError(f"{source}: the market has no providers; give a group a count")
    if total < config.seats:
        raise UsageError(
            f"{source}: each job goes to {config.seats} providers, and there are {total}; "
            "add providers or lower `seats`"
        )
    _check_groups(config, source)
    there = sum(group.count for group in config.watchers)
    if config.watchers_asked > max(1, there):
        raise UsageError(
            f"{source}: {config.watchers_asked} watchers are asked about each job, and there are "
            f"{there}; add watchers or lower `watchers_asked`"
        )
    rate = _check_traces(config) or config.clients.jobs_per_block
    rate += config.service.requests_per_block
    if not rate:
        raise UsageError(
            f"{source}: there are no jobs; set clients.jobs_per_block or "
            "service.requests_per_block above 0"
        )
    blocks = config.jobs / rate
    if blocks > MOST_BLOCKS:
        raise UsageError(
            f"{source}: {config.jobs:,} jobs at {rate:g} per block take "
            f"{blocks:.3g} blocks; at most {MOST_BLOCKS:,} will do"
        )
    if config.program.inference and config.program.steps != 1:
        raise UsageError(f"{source}: inference is one step; set program.steps = 1")
    if config.chain.spike_blocks > config.chain.spike_every:
        raise UsageError(f"{source}: a spike lasts longer than it is to the next one")
    _check_chain(config, source)


def _check_service(config: Config, source: str) -> None:
    """Refuse jobs by receipt that can't be."""
    fault = find_fault(config.service, config.fidelity)
    if fault is not None:
        raise UsageError(f"{source}: {fault}")


def _check_traces(config: Config) -> float | None:
    """Refuse traces that are none; return how many jobs there are per block of one of them."""
    chain, clients, hardware = config.chain, config.clients, config.hardware
    if not (chain.base_fees or clients.arrivals or hardware.prices):
        return None
    from moot.sim.traces import series  # noqa: PLC0415 - seldom needed

    if chain.base_fees:
        series.read_base_fees(chain.base_fees)
    if hardware.prices:
        series.Factors(hardware.prices)
    return series.measure_rate(clients.arrivals) if clients.arrivals else None


def _check_chain(config: Config, source: str) -> None:
    """Refuse a chain that there is not, and jobs that are played by the rules of another."""
    if config.chain.kind == USUAL:
        return
    from moot.sim.economy.chain_rules import make_rule  # noqa: PLC0415 - seldom needed

    given = config.chain
    rule = make_rule(given.kind, given.base_fee_gwei, given.tip_gwei)
    if config.fidelity != "modelled" and not rule.is_usual:
        raise UsageError(
            f"{source}: jobs are played by Prague's rules, and chain.kind is {given.kind}; set "
            f'fidelity = "modelled", or chain.kind = "{USUAL}"'
        )


def _check_groups(config: Config, source: str) -> None:
    """Refuse two groups of one strategy: nobody could say which of them is meant."""
    for groups, name in ((config.providers, "providers"), (config.watchers, "watchers")):
        strategies = [group.strategy for group in groups]
        for strategy in strategies:
            if strategies.count(strategy) > 1:
                raise UsageError(
                    f"{source}: {name} has two groups of {strategy}; give one of them a count"
                )


def _list_numbers(values: object) -> list[float]:
    if isinstance(values, dict):
        return [n for it in values.values() for n in _list_numbers(it)]
    if isinstance(values, list | tuple):
        return [n for it in values for n in _list_numbers(it)]
    return [values] if isinstance(values, float) else []
