"""The published method's grid, thresholds and log, against fractions and integers."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import LogError, UsageError
from moot.offchain.replication.published import logs, parties, thresholds
from moot.offchain.replication.published.rounding import round_to_bits, step

BITS = st.integers(23, 32)

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e38, 1e38),
    st.floats(-1e-37, 1e-37),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@st.composite
def near_middles(draw: st.DrawFn) -> tuple[float, int]:
    """A binary64 value at, or next to, the middle of two neighbours of a grid, and its bits."""
    bits = draw(BITS)
    unit = 1 << (32 - bits)
    place = draw(st.integers(0, 0x7F7FFFFF // unit - 1)) * unit
    below, above = (from_pattern(place), from_pattern(place + unit))
    middle = (below + above) / 2
    away = draw(st.integers(-2, 2))
    for _ in range(abs(away)):
        middle = math.nextafter(middle, math.copysign(math.inf, away))
    return draw(st.sampled_from((-1, 1))) * middle, bits


def from_pattern(pattern: int) -> float:
    """Return the binary32 number of these bits."""
    (value,) = struct.unpack("<f", struct.pack("<I", pattern))
    return float(value)


def to_pattern(value: float) -> int:
    """Return the bits of a binary32 number."""
    (pattern,) = struct.unpack("<I", struct.pack("<f", value))
    return int(pattern)


def round_exactly(value: float, bits: int) -> float:
    """Return the nearest value of a grid by exact arithmetic, ties to the even multiple."""
    if not math.isfinite(value):
        return value
    size, unit = abs(Fraction(value)), 1 << (32 - bits)
    spacing = Fraction(2) ** (max(math.frexp(value)[1], -125) - 24) * unit
    count = size / spacing
    whole = math.floor(count)
    rest = count - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    rounded = whole * spacing
    return math.copysign(math.inf if rounded >= 2**128 else float(rounded), value)


def round_one(value: float, bits: int) -> float:
    """Return one value of a grid by torch."""
    return float(round_to_bits(torch.tensor([value], dtype=torch.float64), bits)[0])


def check_rounding(value: float, bits: int) -> None:
    """Compare both roundings of a value, zeros by their sign."""
    ours, exact = round_one(value, bits), round_exactly(value, bits)
    assert struct.pack("<d", ours) == struct.pack("<d", exact), (value, bits)


@given(DOUBLES, BITS)
def test_rounds_to_the_nearest_of_the_grid(value: float, bits: int) -> None:
    """A rounding is the nearest value of the grid, as exact arithmetic finds it."""
    check_rounding(value, bits)


@given(near_middles())
def test_rounds_at_the_middles(drawn: tuple[float, int]) -> None:
    """At the middle of two neighbours it goes to the even one, and beside it to the nearer."""
    check_rounding(*drawn)


@pytest.mark.parametrize("bits", range(23, 33))
def test_specials_are_defined(bits: int) -> None:
    """NaN and infinities stay, zeros keep their sign, and what is too large becomes infinite."""
    assert math.isnan(round_one(math.nan, bits))
    for value in (math.inf, -math.inf, 0.0, -0.0, 1e39, -1e300, 1e-50):
        check_rounding(value, bits)
    largest = from_pattern(0x7F800000 - (1 << (32 - bits)))
    border = largest + (2.0**128 - largest) / 2
    assert round_one(math.nextafter(border, 0), bits) == largest
    assert round_one(border, bits) == math.inf


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), BITS, st.booleans())
def test_a_step_is_the_next_value_of_the_grid(value: float, bits: int, upwards: bool) -> None:  # noqa: FBT001 - drawn
    """No value of the grid is between one and its neighbour, and a step back leads home."""
    unit = 1 << (32 - bits)
    start = from_pattern(to_pattern(value) & ~(unit - 1) & 0xFFFFFFFF)
    moved = float(step(torch.tensor([start]).double(), bits, upwards=torch.tensor([upwards]))[0])
    if start == 0:
        assert moved == math.copysign(from_pattern(unit), 1 if upwards else -1)
        return
    assert (moved > start) is upwards
    assert abs(to_pattern(abs(moved)) - to_pattern(abs(start))) == unit
    if math.isfinite(moved):
        back = step(torch.tensor([moved]).double(), bits, upwards=torch.tensor([not upwards]))
        assert abs(float(back[0])) == abs(start)


@given(DOUBLES)
def test_the_decimal_exponent_is_the_greatest_power_below(value: float) -> None:
    """It is the greatest binary64 power of ten that is not above |v|."""
    found = float(thresholds.get_decimal_exponent(torch.tensor([value], dtype=torch.float64))[0])
    powers = [float(f"1e{power}") for power in range(-323, 309)]
    assert found == max((power for power in powers if power <= abs(value)), default=powers[0])


@given(near_middles())
def test_below_a_power_of_ten_both_sides_of_a_middle_are_logged(drawn: tuple[float, int]) -> None:
    """What lies at a middle is logged, but where a power of ten is close below: the first fault."""
    value, bits = drawn
    if abs(value) < 1e-300:
        return
    tensor = torch.tensor([value], dtype=torch.float64)
    rule = thresholds.Thresholds(bits)
    codes = parties.classify(tensor, round_to_bits(tensor, bits), rule.find("any"))
    exponent = float(thresholds.get_decimal_exponent(tensor)[0])
    half = 2.0 ** (max(math.frexp(value)[1], -125) - 25 + 32 - bits)
    margin = half / exponent / rule.find("any")
    if margin > 1 + 1e-6:
        assert int(codes[0]) != logs.UNLOGGED
    if margin < 1 - 1e-6:
        assert int(codes[0]) == logs.UNLOGGED


@pytest.mark.parametrize(
    ("low", "high", "most"),
    [(0.1, 0.125, 31), (0.01, 2**-6, 30), (1e-3, 2**-9, 27), (1e-4, 2**-13, 31)],
)
def test_just_above_powers_of_ten_nothing_is_logged_below_32_bits(
    low: float, high: float, most: int
) -> None:
    """The first fault: with few bits no value in these ranges is ever logged, however close."""
    values = torch.linspace(low, math.nextafter(high, 0), 20_001, dtype=torch.float64)
    for bits in range(23, most + 1):
        codes = parties.classify(
            values, round_to_bits(values, bits), thresholds.Thresholds(bits).find("any")
        )
        assert bool((codes == logs.UNLOGGED).all())
    codes = parties.classify(values, round_to_bits(values, 32), thresholds.Thresholds().find("any"))
    assert bool((codes != logs.UNLOGGED).any())


SPECIALS = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 2.0**-126, 2.0**-150, 1e39, 1e300)


@given(st.lists(st.one_of(DOUBLES, near_middles().map(lambda pair: pair[0])), max_size=40), BITS)
def test_the_kernel_does_what_is_defined(values: list[float], bits: int) -> None:
    """Rounding and codes of the kernel are those of the definitions, bit for bit."""
    tensor = torch.tensor([*values, *SPECIALS], dtype=torch.float64)
    for threshold in (thresholds.Thresholds(bits).find("any"), 0.3 * thresholds.get_grid(bits)):
        rounded, codes = parties.round_and_classify(tensor, bits, threshold)
        defined = round_to_bits(tensor, bits)
        assert rounded.numpy().tobytes() == defined.numpy().tobytes()
        assert codes.tolist() == parties.classify(tensor, defined, threshold).tolist()


def test_shares_that_are_logged() -> None:
    """At 32 bits and the usual pivot half of [1, 2) is logged, and more of what is larger."""
    generator = torch.Generator().manual_seed(1)
    for low, high, share in ((1, 2, 0.5), (8, 10, 0.9375), (0.1, 0.125, 0.2)):
        draws = torch.rand(200_000, generator=generator, dtype=torch.float64)
        values = low + (high - low) * draws
        codes = parties.classify(values, round_to_bits(values, 32), 0.25 * thresholds.ULP)
        assert float((codes != logs.UNLOGGED).double().mean()) == pytest.approx(share, abs=0.01)


CODES = st.lists(st.integers(0, 2), max_size=40).map(lambda codes: np.array(codes, np.uint8))


@given(CODES)
def test_packing_is_undone(codes: logs.Codes) -> None:
    """Packed codes come back, in a fifth of the bytes; digit k of a byte is code k, in base 3."""
    packed = logs.pack(codes)
    assert len(packed) == -(-len(codes) // 5)
    assert logs.unpack(packed, len(codes)).tolist() == codes.tolist()
    number = sum(int(byte) * 243**place for place, byte in enumerate(packed))
    assert number == sum(int(code) * 3**place for place, code in enumerate(codes))


@given(st.lists(CODES, max_size=5), st.lists(st.integers(0, 20), max_size=5))
def test_a_stream_is_the_same_however_it_grows(pieces: list[logs.Codes], takes: list[int]) -> None:
    """A stream packed piece by piece is that of all codes, and is read piece by piece likewise."""
    packer = logs.Packer()
    for piece in pieces:
        packer.add(piece)
    whole = np.concatenate([np.empty(0, np.uint8), *pieces])
    packed = packer.finish()
    assert packed.tolist() == logs.pack(whole).tolist()
    unpacker, at = logs.Unpacker(packed, len(whole), "it"), 0
    for take in takes:
        if at + take <= len(whole):
            assert unpacker.take(take).tolist() == whole[at : at + take].tolist()
            at += take
    assert unpacker.take(len(whole) - at).tolist() == whole[at:].tolist()
    unpacker.finish()


@given(st.binary(max_size=12), st.integers(0, 60))
def test_bytes_unpack_to_what_packs_to_them_or_not_at_all(data: bytes, count: int) -> None:
    """A stream has one form: what `unpack` takes is what `pack` makes."""
    packed = np.frombuffer(data, np.uint8)
    try:
        codes = logs.unpack(packed, count)
    except LogError:
        return
    assert logs.pack(codes).tobytes() == data


RUN = bytes(range(32))


def make_log() -> bytes:
    """Return the log of step 3 of a run: seven codes forward and four backward."""
    streams = {}
    for name, count in (("forward", 7), ("backward", 4)):
        codes = np.arange(count, dtype=np.uint8) % 3
        streams[name] = (logs.pack(codes), count)
    return logs.encode_log(logs.StepLog(RUN, 3, streams))


def test_a_log_is_undone() -> None:
    """A log that is decoded has the codes that were encoded."""
    log = logs.decode_log(make_log(), RUN, 3)
    assert {name: logs.unpack(*stream).tolist() for name, stream in log.streams.items()} == {
        "forward": [0, 1, 2, 0, 1, 2, 0],
        "backward": [0, 1, 2, 0],
    }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:20], "cut short: its header takes 64 bytes"),
        (lambda data: data[:-1], "cut short: it declares 3 bytes, not 2"),
        (lambda data: data + b"\0", "has a surplus: it declares 3 bytes, not 4"),
        (lambda data: b"x" + data[1:], "no log of roundings"),
        (lambda data: data[:9] + b"x" + data[10:], "of another run"),
        (lambda data: data[:40] + b"\4" + data[41:], "is of step 4; give that of step 3"),
        (lambda data: data[:55] + b"\1" + data[56:], "72,057,594,037,927,943 codes; 1,0"),
        (lambda data: data[:64] + b"\xf3" + data[65:], "a byte above 242"),
        (lambda data: data[:65] + b"\xf2" + data[66:], "has codes after its last one"),
        (lambda data: data[:48] + b"\x0a" + data[49:], "has a surplus|has codes|declares"),
    ],
)
def test_what_is_no_log_of_the_step_is_refused(spoil: object, message: str) -> None:
    """A log cut short, with a surplus, of another run or step, or too large says what is wrong."""
    assert callable(spoil)
    if message.startswith("has a surplus|"):
        logs.decode_log(spoil(make_log()), RUN, 3)  # the same bytes hold ten codes as well as seven
        return
    with pytest.raises(LogError, match=message):
        logs.decode_log(spoil(make_log()), RUN, 3)


def test_a_log_is_as_long_as_the_step() -> None:
    """A step that rounds more than is logged, or less, refuses the log."""
    log = logs.decode_log(make_log(), RUN, 3)
    stream = parties.AuditorStream(thresholds.Thresholds(), log, "forward")
    stream.round(torch.ones(6, dtype=torch.float64), "any")
    with pytest.raises(LogError, match="stream forward has 7 codes, and the step only 6"):
        stream.finish()
    with pytest.raises(LogError, match="stream forward ends after 7 codes, and the step has more"):
        stream.round(torch.ones(2, dtype=torch.float64), "any")


@given(st.lists(st.floats(1e-9, 1e-5), max_size=6), BITS)
def test_a_selected_threshold_is_the_largest_below_all_distances(
    distances: list[float], bits: int
) -> None:
    """Within its range, every noted distance exceeds it, and none is between it and the least."""
    grid = thresholds.get_grid(bits)
    found = thresholds.select(distances, bits)
    assert 0.25 * grid <= found <= 0.5 * grid
    least = min([*distances, 0.5 * grid])
    if least > 0.25 * grid:
        assert found < least
        assert found == pytest.approx(least, rel=1e-9)


def test_settings_outside_their_range_are_refused() -> None:
    """Bits and pivots that the method does not define say what there is."""
    for bits in (22, 33):
        with pytest.raises(UsageError, match="choose 23 to 32"):
            thresholds.Thresholds(bits)
    with pytest.raises(UsageError, match=r"a pivot of 0\.6 is not from 0 to 0\.5"):
        thresholds.Thresholds(pivot=0.6)
