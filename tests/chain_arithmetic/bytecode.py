"""Batches of calls of a contract's pure functions: results, reverts and gas."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from moot.contracts.compiler import SOURCE_DIR, compile_contract
from moot.offchain.chain import Chain, Contract, connect
from moot.offchain.chain.codec import Codec

PROBE = """
# pragma version 0.4.3

struct Outcome:
    is_done: bool
    result: uint256
    gas: uint256

@external
@view
def probe(target: address, calls: DynArray[Bytes[132], 200]) -> DynArray[Outcome, 200]:
    outcomes: DynArray[Outcome, 200] = []
    for data: Bytes[132] in calls:
        gas: uint256 = msg.gas
        is_done: bool = False
        response: Bytes[32] = b""
        is_done, response = raw_call(
            target, data, max_outsize=32, is_static_call=True, revert_on_failure=False
        )
        gas -= msg.gas
        result: uint256 = 0
        if is_done:
            result = convert(response, uint256)
        outcomes.append(Outcome(is_done=is_done, result=result, gas=gas))
    return outcomes
"""
BATCH = 200

_IMPORT = re.compile(r"^import (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A deployed contract of pure functions of numbers, each with one number as result.

    `code_size` is in bytes.
    """

    target: Contract
    codec: Codec
    probe: Contract
    code_size: int

    def run(self, function: str, vectors: Sequence[Sequence[int]]) -> list[int | None]:
        """Return the result for each vector, None where the contract reverts."""
        return [result if done else None for done, result, _ in self._outcomes(function, vectors)]

    def measure(self, function: str, vectors: Sequence[Sequence[int]]) -> list[int]:
        """Return the gas of each call, the call's own few hundred included."""
        # The first call of a batch pays for the target's first use.
        first = vectors[0]
        batches = range(0, len(vectors), BATCH - 1)
        parts = ((first, *vectors[at : at + BATCH - 1]) for at in batches)
        return [gas for part in parts for *_, gas in self._outcomes(function, part)[1:]]

    def _outcomes(
        self, function: str, vectors: Sequence[Sequence[int]]
    ) -> list[tuple[bool, int, int]]:
        calls = [self.codec.encode_call(function, vector) for vector in vectors]
        batches = [calls[at : at + BATCH] for at in range(0, len(calls), BATCH)]
        address = self.target.address
        return [each for part in batches for each in self.probe.call("probe", address, part)]


@contextmanager
def deployed(name: str, text: str | None = None) -> Iterator[Bytecode]:
    """Deploy `name`.vy, of the chain's sources or with the text given, on a chain of its own."""
    with TemporaryDirectory() as folder, connect() as chain:
        source = SOURCE_DIR / f"{name}.vy"
        _write_with_imports(Path(folder), name, source.read_text() if text is None else text)
        artifact = compile_contract(name, Path(folder))
        target = chain.deploy(artifact, sender=chain.accounts[0])
        yield Bytecode(target, Codec(artifact.abi), _deploy_probe(chain), artifact.runtime_size)


def _deploy_probe(chain: Chain) -> Contract:
    with TemporaryDirectory() as folder:
        Path(folder, "probe.vy").write_text(PROBE)
        return chain.deploy(compile_contract("probe", Path(folder)), sender=chain.accounts[0])


def _write_with_imports(folder: Path, name: str, text: str) -> None:
    """Write a source and all that it imports: other sources than these do not concern it."""
    (folder / f"{name}.vy").write_text(text)
    imported: Iterable[str] = _IMPORT.findall(text)
    for each in imported:
        if not (folder / f"{each}.vy").exists():
            _write_with_imports(folder, each, (SOURCE_DIR / f"{each}.vy").read_text())
