"""The compiler of the contracts in contracts/source, with a cache of its results.

A cache entry is found by the digest of everything that the compiler could read, so it can't
be stale, and it carries its own checksum, so a damaged one is compiled again.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from moot.offchain.collection import without_collection
from moot.offchain.errors import CompileError, UsageError
from moot.offchain.files import making_alone, replacing

SOURCE_DIR = Path(__file__).parent / "source"
EVM_VERSION = "prague"
CACHE_VARIABLE = "MOOT_CACHE"

_OUTPUTS = ("abi", "bytecode", "bytecode_runtime", "layout")
_SUFFIXES = (".vy", ".vyi")

_TOO_LARGE = "ContractSizeLimit"
"""Vyper's name for what EIP-170 forbids."""

# Vyper joins several errors into one text; each is a line, a blank line, and then its place.
_SEVERAL_ERRORS = re.compile(r'following errors:\n\n(.+)\n\n\s*contract "([^":]+):(\d+)"')


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract.

    `runtime_size` is the size in bytes of the code on the chain, immutables included, which
    EIP-170 limits to 24,576. `source_digest` is the SHA-256, in hexadecimal, of every source
    that the compiler could read, of its version and of its settings.
    """

    name: str
    abi: tuple[Mapping[str, Any], ...]
    bytecode: bytes
    runtime_size: int
    source_digest: str


def compile_contract(
    name: str, source_dir: Path = SOURCE_DIR, arithmetic: str = "ordered"
) -> Artifact:
    """Compile `name`.vy, with its imports taken from the same folder, or recall the result.

    Some sources are different in another arithmetic: these are in a folder of its name, and what
    it shares with others in those around that.

    Warnings of the compiler are errors. The optimiser is the one that the source's pragma names;
    where it names none it is `gas`, or `codesize` if the contract were too large else.

    Raises:
        UsageError: there is no such contract.
        CompileError: it does not compile; names the file and the line.
    """
    sources = read_sources(source_dir, arithmetic)
    if f"{name}.vy" not in sources:
        known = [path.removesuffix(".vy") for path in sources if path.endswith(".vy")]
        raise UsageError.unknown("contract", name, known)
    digest = _compute_digest(sources)
    entry = cache_dir() / "contracts" / f"{name}-{digest}.json"
    artifact = _read_entry(entry, name, digest)
    if artifact is None:
        with making_alone(entry):
            artifact = _read_entry(entry, name, digest)
            if artifact is None:
                artifact = _compile(name, sources, digest)
                _write_entry(entry, artifact)
    return artifact


def cache_dir() -> Path:
    """Return where results are kept: $MOOT_CACHE, $XDG_CACHE_HOME/moot or ~/.cache/moot."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "moot"


def read_sources(source_dir: Path, arithmetic: str = "ordered") -> dict[str, str]:
    """Return the texts of a folder's sources by their names, those of an arithmetic first."""
    sources = {}
    for folder in list_folders(source_dir, arithmetic):
        for path in sorted(folder.glob("*")):
            if path.suffix in _SUFFIXES:
                sources[path.name] = path.read_text(encoding="utf-8")
    return sources


def list_folders(source_dir: Path, arithmetic: str) -> list[Path]:
    """Return the folders with an arithmetic's sources; what the later ones have is taken first."""
    own = next(iter(sorted(source_dir.rglob(arithmetic))), source_dir)
    inner = [own, *own.parents][: len(own.relative_to(source_dir).parts)]
    return [source_dir, *reversed(inner)]


def _compute_digest(sources: Mapping[str, str]) -> str:
    inputs = {"vyper": version("vyper"), "evm": EVM_VERSION, "sources": sources}
    return hashlib.sha256(_canonical(inputs)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _compile(name: str, sources: Mapping[str, str], digest: str) -> Artifact:
    try:
        return _compile_for(name, sources, digest, None)
    except CompileError as error:
        if _TOO_LARGE not in str(error):
            raise
    return _compile_for(name, sources, digest, "codesize")


def _compile_for(
    name: str, sources: Mapping[str, str], digest: str, optimizer: str | None
) -> Artifact:
    output = _run_vyper(f"{name}.vy", sources, optimizer)
    runtime = bytes.fromhex(output["bytecode_runtime"].removeprefix("0x"))
    immutables = output["layout"].get("code_layout", {})
    return Artifact(
        name=name,
        abi=tuple(output["abi"]),
        bytecode=bytes.fromhex(output["bytecode"].removeprefix("0x")),
        runtime_size=len(runtime) + sum(_immutable_sizes(immutables)),
        source_digest=digest,
    )


def _immutable_sizes(layout: Mapping[str, Any]) -> list[int]:
    """Return the sizes in bytes of all immutables; those of a module are nested by its name."""
    if isinstance(layout.get("length"), int):
        return [layout["length"]]
    return [size for part in layout.values() for size in _immutable_sizes(part)]


def _run_vyper(path: str, sources: Mapping[str, str], optimizer: str | None) -> dict[str, Any]:
    # Vyper is slow to import, and needed only when a source has changed.
    from vyper.compiler import compile_from_file_input  # noqa: PLC0415
    from vyper.compiler.input_bundle import JSONInputBundle  # noqa: PLC0415
    from vyper.compiler.settings import OptimizationLevel, Settings  # noqa: PLC0415
    from vyper.exceptions import VyperException, VyperInternalException  # noqa: PLC0415
    from vyper.warnings import VyperWarning  # noqa: PLC0415

    # The compiler gets the very texts that were digested, not whatever the disk holds by now.
    files = {PurePosixPath(name): {"content": text} for name, text in sources.items()}
    bundle = JSONInputBundle(files, search_paths=[PurePosixPath()])
    own_errors = (VyperException, VyperInternalException, VyperWarning)
    with warnings.catch_warnings(), without_collection():
        warnings.simplefilter("error", VyperWarning)
        try:
            output: dict[str, Any] = compile_from_file_input(
                bundle.load_file(path),
                input_bundle=bundle,
                settings=Settings(
                    evm_version=EVM_VERSION,
                    optimize=OptimizationLevel.from_string(optimizer) if optimizer else None,
                ),
                output_formats=_OUTPUTS,
            )
        except (*own_errors, SyntaxError, ValueError, FileNotFoundError) as error:
            raise _as_compile_error(error, path) from error
    return output


def _as_compile_error(error: Exception, path: str) -> CompileError:
    """Reduce an error of the compiler to its place and its first sentence."""
    message = str(getattr(error, "message", error))
    if several := _SEVERAL_ERRORS.search(message):
        return CompileError(several[1], file=several[2], line=int(several[3]))
    annotation = (getattr(error, "annotations", None) or [error])[-1]
    node = annotation[1] if isinstance(annotation, tuple) else annotation
    module = getattr(node, "module_node", None)
    file = getattr(module, "resolved_path", None) or getattr(error, "resolved_path", None) or path
    problem = f"{type(error).__name__}: {' '.join(message.split())}"
    return CompileError(problem, file=str(file), line=getattr(node, "lineno", None))


def _read_entry(entry: Path, name: str, digest: str) -> Artifact | None:
    """Return the artifact of a cache entry, or None if it is absent or not as it was written."""
    try:
        stored = json.loads(entry.read_bytes())
        artifact = stored["artifact"]
        if hashlib.sha256(_canonical(artifact)).hexdigest() != stored["sha256"]:
            return None
        return Artifact(
            name=name,
            abi=tuple(artifact["abi"]),
            bytecode=bytes.fromhex(artifact["bytecode"]),
            runtime_size=artifact["runtime_size"],
            source_digest=digest,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_entry(entry: Path, artifact: Artifact) -> None:
    """Keep an artifact; a cache that cannot be written costs time, and nothing else."""
    content = {
        "abi": artifact.abi,
        "bytecode": artifact.bytecode.hex(),
        "runtime_size": artifact.runtime_size,
    }
    checksum = hashlib.sha256(_canonical(content)).hexdigest()
    with contextlib.suppress(OSError), replacing(entry) as draft:
        draft.write_bytes(_canonical({"artifact": content, "sha256": checksum}))


if __name__ == "__main__":
    for each in map(PurePosixPath, sys.argv[1:]):
        compile_contract(each.name, arithmetic=each.parent.name or "ordered")
