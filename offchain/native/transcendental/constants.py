"""The numbers in the formulas of transcendental functions.

Polynomials, lowest power first, and quotients of polynomials interpolate the function that is named
at the Chebyshev points of the range that is named; `tests/sweeps/coefficients.py` computes them.
"""

from collections.abc import Mapping

from moot.offchain.arithmetic.functions import Function


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LOG2_E_LOW = float.fromhex("0x1.777d0ffda0d24p-56")
"""The difference 1 / log(2) - LOG2_E."""

LN2 = float.fromhex("0x1.62e42fefa39efp-1")
LN2_LOW = float.fromhex("0x1.abc9e3b39803fp-56")
"""The difference log(2) - LN2."""

HALF_PI = float.fromhex("0x1.921fb54442d18p+0")
HALF_PI_LOW = float.fromhex("0x1.1a62633145c07p-54")
"""The difference pi / 2 - HALF_PI."""

TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
TWO_OVER_PI_256 = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
"""The first 256 bits of 2 / pi behind the binary point."""

COSH_TAIL = _numbers("""
    0x1.0000000000001p-1 0x1.5555555553d56p-5 0x1.6c16c17890eb4p-10 0x1.a019b8f9792eep-16
    0x1.28919ccaf9211p-22
""")
"""(cosh(r) - 1) / r^2 by powers of r^2, for |r| up to log(2) / 2."""

SINH_TAIL = _numbers("""
    0x1.5555555555556p-3 0x1.11111111109afp-7 0x1.a01a01a7c73c0p-13 0x1.71de0da24602dp-19
    0x1.af38c67fbb53ep-26
""")
"""(sinh(r) / r - 1) / r^2 by powers of r^2, for |r| up to log(2) / 2."""

EXP_TAIL = _numbers("""
    0x1.000000000002ep-1 0x1.555555555556ap-3 0x1.5555554e93acap-5 0x1.1111110e10556p-7
    0x1.6c1b7131a0993p-10 0x1.a01e2c15a33f3p-13
""")
"""(exp(r) - 1 - r) / r^2 by powers of r, for |r| up to log(2) / 16."""

EXP_STEPS = _numbers("""
    0x1.0000000000000p+0 0x1.172b83c7d517bp+0 0x1.306fe0a31b715p+0 0x1.4bfdad5362a27p+0
    0x1.6a09e667f3bcdp+0 0x1.8ace5422aa0dbp+0 0x1.ae89f995ad3adp+0 0x1.d5818dcfba487p+0
""")
"""2^(j / 8)."""

EXP2_STEPS = _numbers("""
    0x1.0000000000000p+0 0x1.0b5586cf9890fp+0 0x1.172b83c7d517bp+0 0x1.2387a6e756238p+0
    0x1.306fe0a31b715p+0 0x1.3dea64c123422p+0 0x1.4bfdad5362a27p+0 0x1.5ab07dd485429p+0
    0x1.6a09e667f3bcdp+0 0x1.7a11473eb0187p+0 0x1.8ace5422aa0dbp+0 0x1.9c49182a3f090p+0
    0x1.ae89f995ad3adp+0 0x1.c199bdd85529cp+0 0x1.d5818dcfba487p+0 0x1.ea4afa2a490dap+0
""")
"""2^(j / 16)."""

EXP2_TAIL = _numbers("""
    0x1.62e42fefa39efp-1 0x1.ebfbdff698082p-3 0x1.c6b08d6fa9e77p-5 0x1.3b2c4b0a05b12p-7
    0x1.5d893e8d178adp-10
""")
"""(2^r - 1) / r by powers of r, for |r| up to 1 / 32."""

LOG2_DIVISORS = _numbers("""
    0x1.62362e0000000p+0 0x1.5387e00000000p+0 0x1.4604b60000000p+0 0x1.398a560000000p+0
    0x1.2dfb780000000p+0 0x1.233f000000000p+0 0x1.193f3e0000000p+0 0x1.0fe96c0000000p+0
    0x1.072d260000000p+0 0x1.0000000000000p+0 0x1.de4c260000000p-1 0x1.c3e9820000000p-1
    0x1.ac49260000000p-1 0x1.9701cc0000000p-1 0x1.83be1c0000000p-1 0x1.72382e0000000p-1
""")
"""1 / m or so, for m in each sixteenth, by bits, of the numbers from sqrt(1/2) to sqrt(2)."""

LOG2_PIECES = _numbers("""
    -0x1.dfb6068692de5p-2 -0x1.a12d1124819c0p-2 -0x1.652e574c33797p-2 -0x1.2b8710c2211eap-2
    -0x1.e814692d8721cp-3 -0x1.7d1f5152b0864p-3 -0x1.15e6c9fe7bfc2p-3 -0x1.6454d7228e7a3p-4
    -0x1.46bf36a06d5f3p-5 0x0.0p+0 0x1.925f97d2fb710p-4 0x1.70d90dbd1b62dp-3
    0x1.07c07a39ced45p-2 0x1.53094ae02ba5ep-2 0x1.9aab694e68122p-2 0x1.defd4b0a3762bp-2
""")
"""-log2 of each."""

LOG2_TAIL = _numbers("""
    0x1.71547652b82f6p+0 -0x1.71547652b9630p-1 0x1.ec709dc46e21dp-2 -0x1.715476060a2d4p-2
    0x1.2776b6e788220p-2 -0x1.ec7546be9d5edp-3 0x1.a6c0729199198p-3 -0x1.6752dbde4f385p-3
""")
"""log2(1 + f) / f by powers of f, for f from -0.0312 to 0.0395."""

ATANH_TAIL = _numbers("""
    0x1.5555555555558p-2 0x1.99999999952e2p-3 0x1.2492492df148dp-3 0x1.c71c62e5800a1p-4
    0x1.7462b4ab2ef6bp-4 0x1.39fe606542ddep-4 0x1.2b584aae78a57p-4
""")
"""(atanh(s) / s - 1) / s^2 by powers of s^2, for |s| up to 3 - sqrt(8)."""

SIN_TAIL = _numbers("""
    -0x1.5555555555555p-3 0x1.1111111110bb2p-7 -0x1.a01a019e83816p-13 0x1.71de379654304p-19
    -0x1.ae600aca92c64p-26 0x1.5e0b05bff20f2p-33
""")
"""(sin(r) / r - 1) / r^2 by powers of r^2, for |r| up to pi / 4."""

COS_TAIL = _numbers("""
    0x1.5555555555555p-5 -0x1.6c16c16c16967p-10 0x1.a01a019f4e9b4p-16 -0x1.27e4fa17bf139p-22
    0x1.1eeb68cd22f56p-29 -0x1.907d8f29fe831p-37
""")
"""(cos(r) - 1 + r^2 / 2) / r^4 by powers of r^2, for |r| up to pi / 4."""

ERF_NUMERATOR = _numbers("""
    0x1.20dd750429b6dp+0 0x1.96ccf0cf680dap-3 0x1.f1156ed4aed88p-5 0x1.6284770f17fd2p-8
    0x1.5919fe501b950p-11 0x1.242dffb2942e8p-15 0x1.1e4c5b4a48e48p-19 0x1.082fadb1b4641p-24
    0x1.d3de0cb35b1b3p-30 0x1.1eb4288646611p-37 -0x1.7f824d7c7f7a3p-47
""")
"""erf(x) / x = p(x^2) / q(x^2), for |x| up to 3.92: this is p."""

ERF_DENOMINATOR = _numbers("""
    0x1.0000000000000p+0 0x1.04cbcb0762a60p-1 0x1.fa1ee40f7a09bp-4 0x1.34ebcda6c0e83p-6
    0x1.07765d03f1f04p-9 0x1.48d06806af280p-13 0x1.3036086f34251p-17 0x1.99c524f38ed25p-22
    0x1.76e8898e65193p-27 0x1.7661b468ce3c6p-33
""")
"""The q of erf."""

ERFC_NUMERATOR = _numbers("""
    0x1.0000000000000p+0 0x1.0b80edd31bdfap+1 0x1.1611ab0c94303p+1 0x1.6f5e7331189d0p+0
    0x1.4ff418c98a5d3p-1 0x1.b6aff09740dcbp-3 0x1.986a1d8b59046p-5 0x1.05e446332d372p-7
    0x1.a6056970b1763p-11 0x1.48c16bf10a749p-15
""")
"""erfc(x) * exp(x^2) = p(x) / q(x), for x from 0 to 10.1: this is p."""

ERFC_DENOMINATOR = _numbers("""
    0x1.0000000000000p+0 0x1.9befa85530bb0p+1 0x1.3371d14dfbaecp+2 0x1.18eeb2b924a09p+2
    0x1.5cf9d25fd2ee9p+1 0x1.34dbf3816b8e7p+0 0x1.8bfe713b321e2p-2 0x1.6cdeaefa091a5p-4
    0x1.d1543c0d27267p-7 0x1.7601a9cb3dd10p-10 0x1.235a1e330e333p-14
""")
"""The q of erfc."""

EXCEPTIONS: Mapping[Function, Mapping[int, int]] = {
    Function.EXP2: {0x3B429D37: 0x3F804385, 0xBCF3A937: 0x3F7AC6B1},
    Function.LOG: {
        0x3C413D3A: 0xC08E158F,
        0x41178FEB: 0x400FE5E7,
        0x4C5D65A5: 0x418F034B,
        0x65D890D3: 0x4254D1F9,
        0x6F31A8EC: 0x42845A89,
    },
    Function.LOG1P: {
        0x35400003: 0x353FFFFF,
        0x3710001B: 0x370FFFF3,
        0x3EFD81AD: 0x3ECDEEE1,
        0x41078FEB: 0x400FE5E7,
        0x65D890D3: 0x4254D1F9,
        0x6F31A8EC: 0x42845A89,
        0xB53FFFFD: 0xB5400001,
        0xB70FFFE5: 0xB710000D,
        0xBB0EC8C4: 0xBB0EF0A5,
    },
    Function.SIN: {0x46199998: 0xBEB1FA5D},
    Function.COS: {0x5F18B878: 0x3F7F14BB, 0x6115CB11: 0x3F78142F},
    Function.SINH: {0x3A1285FF: 0x3A1285FF},
    Function.ERFC: {0xB76C9F62: 0x3F800085, 0xBB6C9B37: 0x3F80857D},
    Function.SIGMOID: {0xBA928601: 0x3EFFDB5F},
}
"""Results that the formulas round to the wrong neighbour, by operand, as bit patterns.

For a symmetric function, the operand is the one that is not negative.
"""
