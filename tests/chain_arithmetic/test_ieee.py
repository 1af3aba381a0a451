"""The operations of IEEE 754 on the chain: bytecode, port and processor agree on every bit."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.chain_arithmetic import volume
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.rounding import expose, load_changed
from tests.chain_arithmetic.subjects import IEEE
from tests.quick import every, share

each_operation = pytest.mark.parametrize("name", IEEE)


@pytest.fixture(scope="module")
def contracts() -> Iterator[dict[str, Bytecode]]:
    """A contract for each operation."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(deployed("exposed", wrap(name))) for name in IEEE}


def wrap(name: str) -> str:
    """Return a contract that has an operation as external function."""
    subject = IEEE[name]
    parameters = ("x", "y", "z")[: subject.known().shape[1]]
    return expose(subject.module, [subject.function], parameters)


def assert_all_agree(contract: Bytecode, name: str, count: int) -> None:
    """Compare bytecode, port and oracle on as many known operands and as many drawn ones."""
    subject, rng = IEEE[name], np.random.default_rng(17)
    known = rng.permutation(subject.known())[:count]
    vectors = np.concatenate([known, subject.draw(rng, count)])
    results = contract.run(subject.function, vectors.tolist())
    port = subject.load()
    assert results == [port(*vector) for vector in vectors.tolist()]
    assert results == subject.expect(vectors)


@each_operation
def test_bytecode_is_port_is_oracle(contracts: dict[str, Bytecode], name: str) -> None:
    """The three agree on hundreds of operands, structured and drawn."""
    assert_all_agree(contracts[name], name, share(150))


@pytest.mark.slow
@each_operation
def test_bytecode_is_port_is_oracle_on_many(contracts: dict[str, Bytecode], name: str) -> None:
    """The three agree on 10,000 operands and more, structured and drawn."""
    assert_all_agree(contracts[name], name, 10_000)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    every(
        12,
        [
            ("fma", "addend = min(addend, 1)", "addend = 0"),
            ("fma", "if places > 128:", "if places > 120:"),
            ("add", "(aligned >> dropped) & 1)", "0)"),
            (
                "add",
                "if product == addend:\n        return 0",
                "if product == addend:\n        return z",
            ),
            ("multiply", "dropped = unsafe_sub(dropped, field)", "dropped = DROPPED"),
            ("multiply", "field < 2**12", "field < 2**7"),
            ("divide", "places = HEAD - 20", "places = HEAD"),
            ("square_root", "222 | (exponent & 1)", "222"),
            ("to_integral", "convert(x & one != 0, uint256)", "0"),
        ],
    ),
)
def test_a_wrong_line_is_found(name: str, old: str, new: str, tmp_path: Path) -> None:
    """A lost sticky bit, tie, sign, exponent or subnormal result shows in a piece of the volume."""
    changed = load_changed("float32", old, new, tmp_path)
    subject = IEEE[name]
    vectors = subject.draw(np.random.default_rng(1), 20_000)
    found = volume.compare(getattr(changed, subject.function), subject, vectors)
    assert found.wrong > 0
    assert volume.compare(subject.load(), subject, vectors).wrong == 0
