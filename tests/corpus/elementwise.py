"""Pointwise mathematics and comparisons, in the order of torch's manual."""

import torch
from torch import Tensor, special
from torch.ao.quantization import FakeQuantize, MinMaxObserver, MovingAverageMinMaxObserver

from tests.corpus.rows import Row, ask, layer, learn, ramp

X = ramp(4, 5, low=-3, high=3)
Y = ramp(4, 5, low=-2, high=2, seed=1)
U = ramp(4, 5, low=-0.95, high=0.95)
P = ramp(4, 5, low=0.1, high=4)
Q = ramp(4, 5, low=0.1, high=4, seed=1)
M = P + 1
N = torch.tensor([[-7, -2, 0, 3, 12], [5, 1, 8, -1, 6]])
D = torch.tensor([[2, -3, 4, 1, 5], [3, 2, -5, 7, -4]])
S = torch.tensor([[2, 3, 0, 1, 5], [3, 2, 63, 7, 64]])
T = N > 0
CHANCE = ramp(4, 5, low=0.05, high=0.95)
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -2.5])

ON_THE_LINE = (
    *(torch.abs, torch.angle, torch.asinh, torch.atan, torch.ceil, torch.conj_physical),
    *(torch.cos, torch.cosh, torch.deg2rad, torch.erf, torch.erfc, torch.exp, torch.exp2),
    *(torch.expm1, torch.fix, torch.floor, torch.frac, torch.nan_to_num, torch.neg, torch.positive),
    *(torch.rad2deg, torch.round, torch.sgn, torch.sigmoid, torch.sign, torch.sin, torch.sinc),
    *(torch.sinh, torch.square, torch.tan, torch.tanh, torch.trunc, torch.relu),
    *(special.ndtr, special.log_ndtr, special.erfcx, torch.i0),
    *(special.i0e, special.i1, special.i1e, torch.digamma),
)
POSITIVE = (
    *(torch.lgamma, torch.log, torch.log10, torch.log1p, torch.log2, torch.reciprocal),
    *(torch.rsqrt, torch.sqrt, special.entr),
)
IN_THE_CIRCLE = (torch.acos, torch.asin, torch.atanh, torch.erfinv)
IN_THE_UNIT = (torch.logit, special.ndtri)


def _make_fake(
    observer: type[MinMaxObserver], *, is_watched: int = 1, is_on: int = 1
) -> FakeQuantize:
    """Return torch's module of fake quantization, with flags of a type that a program keeps."""
    module = FakeQuantize(observer, 0, 255)
    module.observer_enabled = torch.tensor([is_watched])
    module.fake_quant_enabled = torch.tensor([is_on])
    return module


class _Doubled(torch.autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """Return x squared."""
        del ctx
        return x * x

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        """Return twice the gradient."""
        del ctx
        return gradients[0] * 2


UNARY: tuple[Row, ...] = (
    *(learn(f.__name__, f, X) for f in ON_THE_LINE),
    *(learn(f.__name__, f, P) for f in POSITIVE),
    *(learn(f.__name__, f, U) for f in IN_THE_CIRCLE),
    *(learn(f.__name__, f, CHANCE) for f in IN_THE_UNIT),
    learn("acosh", torch.acosh, M),
    learn("polygamma", lambda x: torch.polygamma(1, x), P),
    learn("mvlgamma", lambda x: torch.mvlgamma(x, 2), M),
    learn("round decimals=2", lambda x: torch.round(x, decimals=2) + x, X),
    learn("round decimals=-1", lambda x: torch.round(x * 30, decimals=-1) + x, X),
    ask("frexp", torch.frexp, X),
    ask("signbit", torch.signbit, SPECIAL),
    ask("bitwise_not", lambda n, t: (~n, ~t), N, T),
    ask("logical_not", torch.logical_not, N),
    ask("isfinite", torch.isfinite, SPECIAL),
    ask("isinf", torch.isinf, SPECIAL),
    ask("isposinf", torch.isposinf, SPECIAL),
    ask("isneginf", torch.isneginf, SPECIAL),
    ask("isnan", torch.isnan, SPECIAL),
    ask("isreal", torch.isreal, SPECIAL),
)

BINARY: tuple[Row, ...] = (
    learn("add alpha", lambda x, y: torch.add(x, y, alpha=0.3), X, Y),
    learn("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), X, Y, P),
    learn("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), X, Y, P),
    learn("atan2", torch.atan2, X, Y),
    learn("copysign", torch.copysign, X, Y),
    learn("copysign of a number", lambda x: torch.copysign(x, -1.0), X),
    learn("div", torch.div, X, P),
    learn("div floor", lambda x, y: torch.div(x, y, rounding_mode="floor") + x, X, P),
    learn("div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc") + x, X, P),
    learn("float_power", lambda x: torch.float_power(x, 2.5).float(), P),
    ask("floor_divide", lambda x, p: (x // 0.7, x // p), X, P),
    learn("fmax", torch.fmax, X, Y),
    learn("fmin", torch.fmin, X, Y),
    learn("fmod", torch.fmod, X, P),
    learn("fmod by a number", lambda x: torch.fmod(x, 0.7), X),
    ask("heaviside", torch.heaviside, X.trunc(), Y),
    learn("hypot", torch.hypot, X, Y),
    learn("igamma", torch.igamma, P, Q, given=(0,)),
    learn("ldexp", torch.ldexp, X, torch.arange(-2, 3)),
    learn("lerp", torch.lerp, X, Y, CHANCE),
    learn("logaddexp", torch.logaddexp, X, Y),
    learn("logaddexp2", torch.logaddexp2, X, Y),
    learn("maximum", torch.maximum, X, Y),
    learn("minimum", torch.minimum, X, Y),
    learn("mul", torch.mul, X, Y),
    learn("pow", torch.pow, P, Y),
    learn("pow of a number", lambda x: 1.7**x, X),
    learn("remainder", torch.remainder, X, P),
    learn("remainder by a number", lambda x: x % 0.7, X),
    learn("rsub", lambda x: 2 - x, X),
    learn("sub", torch.sub, X, Y),
    learn("true_divide", torch.true_divide, X, P),
    learn("xlogy", torch.xlogy, X, P),
    learn("xlog1py", special.xlog1py, X, P),
    ask("zeta", special.zeta, M + 1, P),
    ask("bessel_j0", special.bessel_j0, X),
    learn("where", lambda x, y: torch.where(x > y, x, y), X, Y),
    learn("clamp", lambda x: x.clamp(-1, 1.5), X),
    learn("clamp of tensors", torch.clamp, X, Y - 1, Y + 1),
    learn("clip below", lambda x: torch.clip(x, min=0.2), X),
    learn("threshold", lambda x: torch.threshold(x, 0.5, -1), X),
    learn("masked_fill", lambda x: x.masked_fill(x > 1, 0.5), X),
    learn("gradient", torch.gradient, X),
    ask("nextafter", torch.nextafter, X, Y),
    ask("bitwise_and", lambda n, d: n & d, N, D),
    ask("bitwise_or", lambda n, d: n | d, N, D),
    ask("bitwise_xor", lambda n, d: n ^ d, N, D),
    ask("bitwise_left_shift", torch.bitwise_left_shift, D, S),
    ask("bitwise_right_shift", torch.bitwise_right_shift, N, S),
    ask("shifts by a number", lambda n: (n << 3, n >> 2, 1 << n.abs()), N),
    ask("integer division", lambda n, d: (n // d, n % d, torch.fmod(n, d)), N, D),
    ask("integer power", lambda n: (n**3, n**5, n**0), N),
    ask("power of integers", lambda n: torch.pow(n, n.abs() % 5), N),
    ask("integer gcd", torch.gcd, N, D),
    ask("integer lcm", torch.lcm, N, D),
    ask("logical_and", torch.logical_and, N, T),
    ask("logical_or", torch.logical_or, N, T),
    ask("logical_xor", torch.logical_xor, N, T),
)

COMPARISONS: tuple[Row, ...] = (
    *(
        ask(f.__name__, f, X, Y)
        for f in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
    ),
    ask("isclose", lambda x: torch.isclose(x, x * (1 + 1e-6)), X),
    ask("allclose", lambda x: torch.allclose(x, x), X),
    ask("equal", lambda x: torch.equal(x, x + 1), X),
    ask("isin", lambda n: torch.isin(n, torch.tensor([3, -1, 8])), N),
)

QUANTIZED: tuple[Row, ...] = (
    learn(
        "fake_quantize_per_tensor_affine",
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -20, 20),
        X,
    ),
    learn(
        "fake_quantize_per_channel_affine",
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.tensor([0.1, 0.2, 0.1, 0.3]), torch.zeros(4, dtype=torch.int32), 0, -20, 20
        ),
        X,
    ),
    learn(
        "fake_quantize_per_channel_affine, zero points between integers",
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.tensor([0.1, 0.2, 0.1, 0.3]), torch.tensor([0.5, -1.5, 1, 0.25]), 0, -20, 20
        ),
        X,
    ),
    learn(
        "_fake_quantize_learnable_per_tensor_affine",
        lambda x, scale, zero: torch._fake_quantize_learnable_per_tensor_affine(
            x, scale, zero, -4, 3, 0.3
        ),
        X,
        torch.tensor([0.1]),
        torch.tensor([0.5]),
    ),
    learn(
        "_fake_quantize_learnable_per_channel_affine",
        lambda x, scale, zero: torch._fake_quantize_learnable_per_channel_affine(
            x, scale, zero, 0, -4, 3, 0.3
        ),
        X,
        torch.tensor([0.1, 0.2, 0.1, 0.3]),
        torch.tensor([0.0, 2.0, -3.0, 1.0]),
    ),
    layer("FakeQuantize", lambda: _make_fake(MovingAverageMinMaxObserver), X),
    layer("FakeQuantize of all ranges", lambda: _make_fake(MinMaxObserver, is_watched=0), X),
    layer("FakeQuantize without effect", lambda: _make_fake(MinMaxObserver, is_on=0), X),
    learn("straight-through", lambda x: x + (x.round() - x).detach(), X),
    learn("autograd.Function", _Doubled.apply, X),
    learn("float16 round trip", lambda x: x.half().float(), X),
    learn("float64 sum", lambda x: x.double().sum().float(), X),
)


ROWS = (*UNARY, *BINARY, *COMPARISONS, *QUANTIZED)
