"""The numbers in the formulas of `quick.py`, all of them float32 numbers.

`tests/sweeps/quick_coefficients.py` computes them.
"""

STEPS = 32
"""Elements of a table: as many as two registers hold."""

ANCHOR_SHIFT, ANCHOR_BITS = 0.65625, 20
"""An operand's anchor is found by the bits of the operand and this, from this place on."""


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


LN2_STEP = _numbers("""
    0x1.62e430p-6 -0x1.05c610p-34
""")
"""log(2) / 32, and what is left of it."""

POWERS = _numbers("""
    0x1.000000p+0 0x1.059b0ep+0 0x1.0b5586p+0 0x1.11301ep+0 0x1.172b84p+0 0x1.1d4874p+0
    0x1.2387a6p+0 0x1.29e9e0p+0 0x1.306fe0p+0 0x1.371a74p+0 0x1.3dea64p+0 0x1.44e086p+0
    0x1.4bfdaep+0 0x1.5342b6p+0 0x1.5ab07ep+0 0x1.6247ecp+0 0x1.6a09e6p+0 0x1.71f75ep+0
    0x1.7a1148p+0 0x1.82589ap+0 0x1.8ace54p+0 0x1.93737cp+0 0x1.9c4918p+0 0x1.a5503cp+0
    0x1.ae89fap+0 0x1.b7f770p+0 0x1.c199bep+0 0x1.cb720ep+0 0x1.d5818ep+0 0x1.dfc974p+0
    0x1.ea4afap+0 0x1.f50766p+0
""")
"""2^(j / 32)."""

POWERS_LOW = _numbers("""
    0x0.0p+0 -0x1.947416p-25 0x1.8d96d4p-25 -0x1.dda2fep-25 -0x1.9c0c22p-27 -0x1.a2fbb4p-25
    0x1.964902p-25 -0x1.2b0dbcp-25 0x1.125002p-25 -0x1.cde8cep-26 0x1.370be4p-25 0x1.336de2p-30
    -0x1.0a3552p-25 -0x1.c541b6p-26 -0x1.00d8acp-27 -0x1.6cb284p-25 0x1.26055cp-26 0x1.8b2bb8p-26
    -0x1.05cb44p-25 -0x1.1c2142p-26 0x1.67a1cap-28 -0x1.348e56p-25 0x1.a3b5e4p-28 -0x1.0b7ec8p-25
    -0x1.f9c306p-27 -0x1.e4c886p-26 -0x1.6961b4p-28 -0x1.b5151ep-28 -0x1.a5217cp-28 -0x1.ab7132p-26
    0x1.61428ep-28 -0x1.2ad5f8p-27
""")
"""log(2^(j / 32) / POWERS[j])."""

EXP_TAIL_32 = _numbers("""
    0x1.000000p-1 0x1.5555b8p-3 0x1.555598p-5
""")
"""(exp(r) - 1 - r) / r^2 by powers of r, for |r| up to log(2) / 64."""

ANCHORS = _numbers("""
    0x1.78fc1cp+0 0x1.b7a800p+0 0x1.f73852p+0 0x1.1acd5ap+1 0x1.3b0da0p+1 0x1.5c9050p+1
    0x1.7c9680p+1 0x1.9c1df6p+1 0x1.cbcbd2p+1 0x1.065b20p+2 0x1.25cabep+2 0x1.44f970p+2
    0x1.67057ap+2 0x1.84b354p+2 0x1.a5eff8p+2 0x1.c62e92p+2 0x1.f70406p+2 0x1.154246p+3
    0x0.0p+0 0x1.ff74fcp-5 0x1.ffeb78p-4 0x1.7fda1ep-3 0x1.ff4222p-3 0x1.411efap-2
    0x1.9fc460p-2 0x1.0fa288p-1 0x1.4ef05ep-1 0x1.8ec676p-1 0x1.cf7bfep-1 0x1.08b518p+0
    0x1.28843ap+0 0x1.47f97ep+0
""")
"""Operands whose tanh is, but for 2^-40 of it, a float32 number: one in each interval."""

ANCHOR_VALUES = _numbers("""
    0x1.ccd632p-1 0x1.e00690p-1 0x1.ec4cb2p-1 0x1.f3cf10p-1 0x1.f8998ap-1 0x1.fb9a70p-1
    0x1.fd546ap-1 0x1.fe5de6p-1 0x1.ff3958p-1 0x1.ffb7ecp-1 0x1.ffe502p-1 0x1.fff5d0p-1
    0x1.fffc7cp-1 0x1.fffe9cp-1 0x1.ffff82p-1 0x1.ffffd2p-1 0x1.fffff6p-1 0x1.fffffep-1
    0x0.0p+0 0x1.fecb20p-5 0x1.fd455cp-4 0x1.7b6b64p-3 0x1.f4e56cp-3 0x1.36fe22p-2
    0x1.8a551ap-2 0x1.f1734cp-2 0x1.2621aap-1 0x1.4dd996p-1 0x1.700bf2p-1 0x1.8d1008p-1
    0x1.a4153cp-1 0x1.b6ad56p-1
""")
"""The tanh of each anchor."""

TANH_TAIL = _numbers("""
    -0x1.555556p-2 0x1.1110a4p-3 -0x1.b9a67ap-5 0x1.51f7e6p-6
""")
"""(tanh(b) / b - 1) / b^2 by powers of b^2, for |b| up to 0.27; beyond it, tanh is all but 1."""
