"""The settings of a party: one TOML file, whose every key is an option and a variable, too."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError

PREFIX = "MOOT_"
MOST_BYTES = 2**20
MOST_ETHER = 10**8
CONDITIONS = (
    *("most_bond", "least_reward", "least_yield", "least_hourly", "most_locked_blocks"),
    *("most_hours", "most_memory_gb", "most_disk_gb", "most_operators", "most_slots"),
    *("crowd", "block_seconds"),
)
"""The settings that say which jobs a provider takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a party is told; a list is written with commas, an amount of money in ETH.

    Attributes:
        chain: the addresses of nodes, in the order of preference.
        referee: the referee's address.
        service: the address of a service, for receipts.
        key: a keystore file, as `moot keys new` makes one.
        password_from: where its password is, file:PATH or env:NAME; asked for without.
        arithmetic: the arithmetic of the referee's programs.
        backend: what computes: cpu, cuda (an NVIDIA device), or cuda-emulator (its kernels on the
            processor).
        engine: what computes in binary64, in `exact` and `logged`: own, numpy, torch, cublas, or
            path/to/file.py:Class, whose code runs on this machine, with all that you may do.
        workers: processes among which the batches of a run are shared out.
        workers_at: a folder that hosts share, at which so many workers wait that torchrun has
            started; without it they are processes of this machine.
        store: the store with the jobs' programs, starts and batches: a client's folder, or where
            a provider fetches from.
        results: where providers serve what they have computed, and what a verifier asks them for.
        folder: what the party keeps; one account's alone.
        host: the address at which a provider serves its results.
        port: the port of that address; 0 for any that is free.
        max_fee_gwei: the most that a unit of gas may cost, in gwei.
        confirmations: blocks after which a transaction is final.
        gas_budget: what the gas of one job may cost, in ETH; 0 for as much as its crowd may take.
        most_bond: the highest bond, in ETH.
        least_reward: the lowest reward, in ETH.
        least_yield: the lowest reward for a bond, as a share of it, for a year that it is locked.
        least_hourly: the lowest reward for an hour of computing on one core, in ETH.
        most_locked_blocks: the longest time that a bond may be locked in a job.
        most_hours: the longest time of computing a job, after which it is given up.
        most_memory_gb: the most memory that computing may take; 0 for what this machine has.
        most_disk_gb: the most room for the batches and checkpoints of one job.
        most_operators: the most operators of a program.
        most_slots: the most tensors of a program's state, and of its batch.
        crowd: liars that the clocks and the money have to suffice for.
        block_seconds: the time between blocks, in seconds.
        availability: the contract of promises, if promises are made or wanted.
        promise_bond: what a client bonds on the promise that its job can be had; 0 for no promise.
        least_promise: the bond of a promise below which a provider takes no job.
        demand_budget: what demands may cost together: those of seven days upon all promises that
            jobs can be had, or those of one result.
        demand_share: what demands of a job may cost, as a share of what it may pay.
        delivery: the contract of premiums, if premiums are offered or earned.
        premium: what a client bonds for handing the result over, in ETH; 0 for no premium.
        premium_window: for so many blocks the result can be demanded.
        stand_in_blocks: for so long a provider leaves it to the client to begin and to settle.
        verifier: the account whose rulings are accepted in jobs whose leaf is an operator.
        policy: which jobs to take: path/to/file.py:Class, whose code runs on this machine, with all
            that you may do.
        cheat: what to do otherwise than agreed, to try the court.
    """

    chain: str = ""
    referee: str = ""
    service: str = ""
    key: str = ""
    password_from: str = ""
    arithmetic: str = "ordered"
    backend: str = "cpu"
    engine: str = "own"
    workers: int = 1
    workers_at: str = ""
    store: str = ""
    results: str = ""
    folder: str = "moot-provider"
    host: str = "127.0.0.1"
    port: int = 0
    max_fee_gwei: float = 50.0
    confirmations: int = 8
    gas_budget: float = 0.0
    most_bond: float = 1.0
    least_reward: float = 0.0
    least_yield: float = 0.05
    least_hourly: float = 0.0005
    most_locked_blocks: int = 50_400
    most_hours: float = 24.0
    most_memory_gb: float = 0.0
    most_disk_gb: float = 100.0
    most_operators: int = 65_536
    most_slots: int = 8_192
    crowd: int = 100
    block_seconds: float = 12.0
    availability: str = ""
    promise_bond: float = 0.0
    least_promise: float = 0.0
    demand_budget: float = 0.0
    demand_share: float = 0.1
    delivery: str = ""
    premium: float = 0.0
    premium_window: int = 7200
    stand_in_blocks: int = 4
    verifier: str = ""
    policy: str = ""
    cheat: str = ""

    def require(self, *names: str) -> None:
        """Refuse to begin without some of the settings."""
        for name in names:
            if not getattr(self, name):
                raise UsageError(
                    f"`{name}` is not set; give --{name.replace('_', '-')}, {PREFIX}{name.upper()} "
                    f"or a line `{name} = …` in the file of settings"
                )


def list_keys() -> Iterable[Field[Any]]:
    """Return the keys."""
    return fields(Settings)


def describe_keys() -> dict[str, str]:
    """Return what each key is for, a line that ends with a full stop."""
    text = (Settings.__doc__ or "").partition("Attributes:")[2]
    items = re.findall(r"^        (\w+): (.*(?:\n            .*)*)", text, re.MULTILINE)
    texts = {name: " ".join(about.split()) for name, about in items}
    return {name: about[:1].upper() + about[1:] for name, about in texts.items()}


VARIABLES = {PREFIX + field.name.upper(): field.name for field in list_keys()}
"""Variable of the environment -> the key that it sets."""


def read_settings(
    path: Path | None, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings: an option goes before a variable, and that before the file.

    Raises:
        UsageError: a key is unknown, or a value is of another kind.
    """
    known = {field.name: field for field in list_keys()}
    values: dict[str, Any] = {}
    if path is not None:
        for name, value in _read_file(path).items():
            if name not in known:
                raise UsageError.unknown(f"key in {path}", name, known, "keys")
            values[name] = value
    variables = {name: environment.get(variable) for variable, name in VARIABLES.items()}
    for chosen in (variables, given):
        values |= {name: value for name, value in chosen.items() if value is not None}
    converted: dict[str, Any] = {name: _convert(known[name], it) for name, it in values.items()}
    return Settings(**converted)


def split_list(text: str) -> list[str]:
    """Return the items of a list, which commas part."""
    return [item.strip() for item in text.split(",") if item.strip()]


def to_wei(ether: float) -> int:
    """Return an amount of ETH in wei."""
    return int(Decimal(str(ether)) * 10**18)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
        return tomllib.loads(text.decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is no TOML file: {error}") from error


def _convert(field: Field[Any], value: object) -> object:
    """Return a value as its key has it."""
    kind = type(field.default)
    wanted = {str: "text", int: "a whole number", float: "a number"}[kind]
    refusal = UsageError(f"`{field.name}` is {wanted}, not {value!r}")
    if kind is str:
        if not isinstance(value, str):
            raise refusal
        return value
    if isinstance(value, bool):
        raise refusal
    try:
        number = int(str(value)) if kind is int else float(Decimal(str(value)))
    except (ValueError, InvalidOperation):
        raise refusal from None
    if not 0 <= number < MOST_ETHER:
        raise UsageError(f"`{field.name}` is not negative and below {MOST_ETHER}, not {value!r}")
    return number
