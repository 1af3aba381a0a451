"""The files of chains: those that come with us, and any other TOML file with the same keys."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from moot.offchain.errors import UsageError
from moot.sim.chains.chain import Chain
from moot.sim.chains.kinds.table import KINDS

FOLDER = Path(__file__).parent


@lru_cache(maxsize=1)
def list_chains() -> tuple[str, ...]:
    """Return the names of the chains that come with us."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def find_chain(name: str) -> Chain:
    """Return the chain of a name, or of a TOML file.

    Raises:
        UsageError: there is neither, or the file lacks a key, or has one that is impossible.
    """
    if Path(name).suffix == ".toml":
        return _read(Path(name))
    if name not in list_chains():
        raise UsageError.unknown("chain", name, list_chains())
    return _find_shipped(name)


@lru_cache(maxsize=64)
def _find_shipped(name: str) -> Chain:
    return _read(FOLDER / f"{name}.toml")


def _read(path: Path) -> Chain:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # of TOML, of UTF-8, or of a path that none can be
        raise UsageError(f"{path} is not TOML: {error}") from error
    return parse_chain(values, path.stem, str(path))


def parse_chain(values: Mapping[str, Any], name: str, source: str) -> Chain:
    """Return the chain with these values.

    Args:
        values: as a TOML file has them.
        name: of the chain.
        source: what an error begins with.

    Raises:
        UsageError: a key is missing, unknown or impossible.
    """
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{source}: kind is {kind!r}; choose one of {', '.join(KINDS)}")
    wanted = {**get_type_hints(Chain, include_extras=True), "fees": KINDS[kind]}
    wanted.pop("name")
    given: dict[str, Any] = {}
    _check_keys(values, wanted, source, "")
    for key, hint in wanted.items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            if not isinstance(values[key], Mapping):
                raise UsageError(f"{source}: {key} is no table; write [{key}]")
            _check_keys(values[key], get_type_hints(hint), source, f"{key}.")
            _check_finite(values[key], source, f"{key}.")
        try:
            given[key] = msgspec.convert(values[key], hint)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$")
            place = f"{key}{where.strip('`')}"
            raise UsageError(
                f"{source}: {place}: {what[0].lower()}{what[1:].replace('`', '')}"
            ) from None
    chain = Chain(name=name, **given)
    if chain.block.transaction_gas_limit > chain.block.gas_limit:
        raise UsageError(f"{source}: block.transaction_gas_limit is above block.gas_limit")
    return chain


def _check_keys(
    values: Mapping[str, Any], wanted: Mapping[str, Any], source: str, place: str
) -> None:
    """Refuse a key that there is not, with the nearest that there is, and the lack of one."""
    names = [f"{place}{name}" for name in wanted]
    for key in values:
        if key not in wanted:
            raise UsageError.unknown(f"key in {source}", f"{place}{key}", names, "keys")
    for key in wanted:
        if key not in values:
            raise UsageError(f"{source}: {place}{key} is missing; every chain states it")


def _check_finite(values: Mapping[str, Any], source: str, place: str) -> None:
    """Refuse what is no number although it is written like one."""
    for key, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(
                f"{source}: {place}{key}: {value} is not a number that a chain can have"
            )
