"""Arithmetic of complex numbers, by their real and imaginary parts.

Real tensors are left to their own rules.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from moot.offchain.frontend.decompositions.signs import angle as angle_of_real
from moot.offchain.frontend.decompositions.signs import find_scale, hypot

Number = Tensor | complex


def _is_complex(x: Number) -> bool:
    return x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex)


def _split(x: Number) -> tuple[Any, Any]:
    """Return the real and the imaginary part; 0 is the imaginary part of a real number."""
    if not isinstance(x, Tensor):
        return x.real, x.imag
    if not x.is_complex():
        return x.float(), 0.0
    prims = torch.ops.prims
    return prims.real.default(x), prims.imag.default(x)


def _join(real: Tensor, imaginary: Tensor | float) -> Tensor:
    if not isinstance(imaginary, Tensor):
        imaginary = torch.full_like(real, imaginary)
    return torch.complex(*torch.broadcast_tensors(real, imaginary))  # type: ignore[no-untyped-call]  # torch's is untyped


def _add(sign: int) -> Callable[..., Any]:
    def add(x: Number, y: Number, *, alpha: Number = 1) -> Any:
        if not (_is_complex(x) or _is_complex(y)):
            return NotImplemented
        (a, b), (c, d) = _split(x), _split(y if alpha == 1 else y * alpha)
        return _join(a + sign * c, b + sign * d)

    return add


def multiply(x: Number, y: Number) -> Any:
    """Return a product: a c - b d and a d + b c, or both parts scaled by a real number."""
    if not (_is_complex(x) or _is_complex(y)):
        return NotImplemented
    (a, b), (c, d) = _split(x), _split(y)
    if not _is_complex(y):
        return _join(a * c, b * c)
    if not _is_complex(x):
        return _join(a * c, a * d)
    return _join(a * c - b * d, a * d + b * c)


def divide(x: Number, y: Number) -> Any:
    """Return a quotient: that of the product with the conjugate and the square of the size.

    Both are scaled by powers of two where squares leave the range.
    """
    if not (_is_complex(x) or _is_complex(y)):
        return NotImplemented
    (a, b), (c, d) = _split(x), _split(y)
    if not _is_complex(y):
        return _join(a / c, b / c)
    if not isinstance(y, Tensor):
        size = c * c + d * d
        return _join((a * c + b * d) / size, (b * c - a * d) / size)
    scale, _ = find_scale(torch.maximum(c.abs(), d.abs()))
    c, d = c * scale, d * scale
    size = c * c + d * d
    if not isinstance(x, Tensor):
        return _join((a * c + b * d) / size * scale, (b * c - a * d) / size * scale)
    down, up = find_scale(a.abs() if isinstance(b, float) else torch.maximum(a.abs(), b.abs()))
    a, b = a * down, b * down
    return _join((a * c + b * d) / size * scale * up, (b * c - a * d) / size * scale * up)


def reciprocal(x: Tensor) -> Any:
    """Return one over a complex number."""
    return divide(1.0, x) if x.is_complex() else NotImplemented


def magnitude(x: Tensor) -> Any:
    """Return the distance from 0."""
    return hypot(*_split(x)) if x.is_complex() else NotImplemented


def sgn(x: Tensor) -> Any:
    """Return the number of size 1 in the same direction, and 0 for 0."""
    if not x.is_complex():
        return NotImplemented
    real, imaginary = _split(x)
    size = hypot(real, imaginary)
    divisor = torch.where(size == 0, 1.0, size)
    return _join(real / divisor, imaginary / divisor)


def angle(x: Tensor) -> Tensor:
    """Return the angle of a number, complex or real."""
    if not x.is_complex():
        return angle_of_real(x)
    real, imaginary = _split(x)
    return torch.atan2(imaginary, real)


def exponential(x: Tensor) -> Any:
    """Return e to the power of a complex number."""
    if not x.is_complex():
        return NotImplemented
    real, imaginary = _split(x)
    return polar(real.exp(), imaginary)


def polar(size: Tensor, direction: Tensor) -> Tensor:
    """Return the number of a size and an angle."""
    return torch.complex(size * direction.cos(), size * direction.sin())


def conjugate(x: Number) -> Any:
    """Return the number mirrored at the real axis."""
    if not isinstance(x, Tensor):
        return x.conjugate()
    if not x.is_complex():
        return x
    real, imaginary = _split(x)
    return torch.complex(real, -imaginary)


def equals(x: Number, y: Number) -> Any:
    """Return where both parts are equal."""
    if not (_is_complex(x) or _is_complex(y)):
        return NotImplemented
    (a, b), (c, d) = _split(x), _split(y)
    return (a == c) & (b == d)


def matrix_product(x: Tensor, y: Tensor) -> Any:
    """Return the product of complex matrices, by four products of real ones."""
    if not x.is_complex():
        return NotImplemented
    (a, b), (c, d) = _split(x), _split(y)
    return torch.complex(a @ c - b @ d, a @ d + b @ c)


COMPLEX: Mapping[str, Callable[..., Any]] = {
    "aten.add.Tensor": _add(1),
    "aten.add.Scalar": _add(1),
    "aten.sub.Tensor": _add(-1),
    "aten.sub.Scalar": _add(-1),
    "aten.mul.Tensor": multiply,
    "aten.mul.Scalar": multiply,
    "aten.div.Tensor": divide,
    "aten.div.Scalar": divide,
    "aten.reciprocal.default": reciprocal,
    "aten.abs.default": magnitude,
    "aten.sgn.default": sgn,
    "aten.angle.default": angle,
    "aten.exp.default": exponential,
    "aten.polar.default": polar,
    "aten._conj.default": conjugate,
    "aten.conj_physical.default": conjugate,
    "aten._conj_physical.default": conjugate,
    "aten._neg_view.default": torch.neg,
    "aten.eq.Tensor": equals,
    "aten.eq.Scalar": equals,
    "aten.mm.default": matrix_product,
    "aten.bmm.default": matrix_product,
}
"""ATen overload -> decomposition."""
