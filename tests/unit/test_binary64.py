"""Engines of binary64: those that ship keep what they have to; each that does not is refused."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.table import use_engine
from moot.offchain.errors import DeviceError, MootError, UnsuitableEngine, UsageError
from moot.offchain.native.binary64.base import Engine
from moot.offchain.native.binary64.current import computing_by, get_engine
from moot.offchain.native.binary64.numpy import NumpyEngine
from moot.offchain.native.binary64.table import ENGINES
from moot.offchain.native.binary64.trial import try_engine

Doubles = npt.NDArray[np.float64]
MILLION = 1_000_000


def _multiply_by_strassen(a: Doubles, b: Doubles) -> Doubles:
    sizes = (*a.shape[-2:], b.shape[-1])
    if min(sizes) < 128 or any(size % 2 for size in sizes):
        return np.matmul(a, b)
    (p, q, r, s), (t, u, v, w) = _quarter(a), _quarter(b)
    pairs = [(p + s, t + w), (r + s, t), (p, u - w), (s, v - t)]
    pairs += [(p + q, w), (r - p, t + u), (q - s, v + w)]
    m = [_multiply_by_strassen(*pair) for pair in pairs]
    top = np.concatenate([m[0] + m[3] - m[4] + m[6], m[2] + m[4]], -1)
    bottom = np.concatenate([m[1] + m[3], m[0] - m[1] + m[2] + m[5]], -1)
    return np.concatenate([top, bottom], -2)


def _quarter(x: Doubles) -> Sequence[Doubles]:
    m, n = x.shape[-2] // 2, x.shape[-1] // 2
    return x[..., :m, :n], x[..., :m, n:], x[..., m:, :n], x[..., m:, n:]


def _cut(x: Doubles, axis: int) -> tuple[list[Doubles], Doubles]:
    """Return eight whole numbers of seven bits for each number, and the size of its row."""
    size = np.abs(x).max(axis=axis, keepdims=True)
    scale = 2.0 ** np.ceil(np.log2(np.where(size == 0, 1, size)))
    rest, slices = x / scale, []
    for _ in range(8):
        rest = rest * 128
        slices.append(np.trunc(rest))
        rest = rest - slices[-1]
    return slices, scale


class Strassen(Engine):
    """Products of sums of other terms."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        return _multiply_by_strassen(a, b)


class Emulated(Engine):
    """Binary64 out of products of whole numbers of eight bits."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        (left, rows), (right, columns) = _cut(a, -1), _cut(b, -2)
        total: Any = 0.0
        for place in range(7, -1, -1):
            for i in range(place + 1):
                total = total + np.matmul(left[i], right[place - i]) * 2.0 ** (-7 * (place + 2))
        return total * rows * columns


class SeldomOff(Engine):
    """One last bit in a million is wrong."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        found = np.matmul(a, b).reshape(-1)
        self.seed = getattr(self, "seed", 0) + 1
        wrong = np.random.default_rng(self.seed).integers(0, MILLION, found.size) == 0
        found[wrong] = np.nextafter(found[wrong], np.inf)
        return found.reshape(*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], -1)


class Single(Engine):
    """Products in binary32."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float64)


class Narrow(Engine):
    """Results in binary32."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        return np.matmul(a, b).astype(np.float32)


class OneSum(Engine):
    """One sum for all rows."""

    def add_up(self, terms: Doubles) -> Any:
        """See Engine."""
        return terms.sum()


class Raising(Engine):
    """A product that fails."""

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        raise ValueError(f"no {a.shape}\n{b.shape}")


class Nothing(Engine):
    """Functions that are no numbers."""

    def evaluate(self, function: Function, *operands: Doubles) -> Any:
        """See Engine."""
        return super().evaluate(function, *operands) * np.nan


class Logarithm(Engine):
    """A logarithm near 1 by way of the plain one."""

    def evaluate(self, function: Function, *operands: Doubles) -> Any:
        """See Engine."""
        if function is Function.LOG1P:
            return np.log(1 + operands[0])
        return super().evaluate(function, *operands)


REFUSED: tuple[tuple[Callable[[], Engine], str], ...] = (
    (Strassen, r"errs by .* times its bound in a product"),
    (Emulated, r"errs by .* times its bound in a product .* wide exponents"),
    (SeldomOff, r"where it can't"),
    (Single, r"errs by .* times its bound"),
    (Narrow, r"returns float32"),
    (OneSum, r"returns float64 \(\) for a sum"),
    (Raising, r"fails in a product .* \(ValueError no .* .*\)"),
    (Nothing, r"errs by more than any multiple of its bound in exp of"),
    (Logarithm, r"its bound in log1p of"),
)


@pytest.mark.parametrize(("make", "line"), REFUSED)
def test_what_errs_is_refused(make: Callable[[], Engine], line: str) -> None:
    """Each engine that breaks what an engine has to keep is refused in one line that says how."""
    with pytest.raises(UnsuitableEngine, match=line) as refusal:
        try_engine("mine", make())
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "cublas"])
def test_what_ships_is_tried(name: str) -> None:
    """Each engine that ships passes, and then the process computes by it, whatever the function."""
    with computing_by(get_engine()):
        use_engine(name, LOGGED)
        for function, known in FUNCTIONS.items():
            operands = _operands(function)
            found = get_engine().evaluate(function, *operands)
            assert np.allclose(found, known(*operands), rtol=2.0**-46, atol=0)


@pytest.mark.device
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device")
def test_a_device_is_tried() -> None:
    """The engine of a device passes where there is one."""
    with computing_by(get_engine()):
        use_engine("cublas", LOGGED)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_no_device_is_refused() -> None:
    """Where there is none, the line says what to choose."""
    with pytest.raises(DeviceError, match="choose own, numpy or torch"):
        use_engine("cublas", LOGGED)


def _operands(function: Function) -> Sequence[Doubles]:
    x = np.array([0.25, 0.5, 0.75])
    return (x, x) if function is Function.POW else (x,)


def test_a_file_brings_an_engine(tmp_path: Path) -> None:
    """A user's class is an engine by its file and name; whatever is none is refused in one line."""
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "from moot.offchain.native.binary64.base import Engine\n"
        "@dataclass\n"
        "class Mine(Engine):\n"
        "    def add_up(self, terms):\n"
        "        return terms[:, ::-1].sum(axis=1)\n"
        "@dataclass\n"
        "class Other:\n"
        "    pass\n"
    )
    with computing_by(get_engine()):
        use_engine(f"{mine}:Mine", EXACT)
        assert type(get_engine()).__name__ == "Mine"
    wrong = {
        ("numpyy", LOGGED, "cpu"): "numpy",
        (f"{mine}:Other", LOGGED, "cpu"): "is no engine",
        (f"{mine}:Nobody", LOGGED, "cpu"): "has no dataclass Nobody",
        ("numpy", ORDERED, "cpu"): "choose --arithmetic exact or logged",
        ("numpy", EXACT, "cuda-emulator"): "takes no --engine",
    }
    for (name, arithmetic, backend), line in wrong.items():
        with pytest.raises(UsageError, match=line):
            use_engine(name, arithmetic, backend)
    use_engine("own", ORDERED)
    use_engine("own", EXACT, "cuda-emulator")
    assert issubclass(UnsuitableEngine, MootError)


def test_an_engine_is_put_back() -> None:
    """Another engine computes for a while, also where something fails meanwhile."""
    before = get_engine()
    with pytest.raises(KeyError), computing_by(NumpyEngine()):
        raise KeyError
    assert get_engine() is before
