"""Window folds: pooling of odd sizes, strides and borders, against the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import windows
from moot.offchain.backends.cpu.folds import Reduction
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.cpu.windows import WindowReduction
from moot.offchain.commitments.tensors import NUMPY_TYPES, encode_elements
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.quick import share
from tests.unit.test_kernels_scatter import draw_bits

FLOAT32, INT64, INT32, *_ = DType
NOWHERE = (1 << 64) - 1
SIZES = st.sampled_from([3, 4, 5, 16, 17, 33, 70])


@settings(deadline=None, max_examples=share(150))
@given(
    st.sampled_from(
        [Function.MAX, Function.MIN, Function.ADD, Function.MUL, Function.ARGMAX, Function.ARGMIN]
    ),
    st.sampled_from([FLOAT32, FLOAT32, INT32, INT64]),
    st.tuples(st.integers(1, 3), SIZES, SIZES),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from([0, 0x80000000, 0x7FC00000, 0xFF800000, 0x3F800000]),
    st.integers(0, 1 << 32),
)
def test_windows_equal_the_plain_fold(
    function: Function,
    dtype: DType,
    image: tuple[int, int, int],
    window: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    fill: int,
    seed: int,
) -> None:
    """Any window gives the bits of the fold row by row, at borders and on any number of threads."""
    planes, *sizes = image
    places = [
        (n + 2 * p - w) // s + 1 for n, w, s, p in zip(sizes, window, stride, padding, strict=True)
    ]
    if min(places) < 1:
        return
    rng = np.random.default_rng(seed)
    x = draw_bits(rng, image).view(np.float32)
    if dtype is not FLOAT32:
        x = rng.integers(-3, 4, image).astype(NUMPY_TYPES[dtype])
    rows = [
        Row(n, -p, ((1 + axis, s), (3 + axis, 1)))
        for axis, (n, s, p) in enumerate(zip(sizes, stride, padding, strict=True))
    ]
    is_position = function in (Function.ARGMAX, Function.ARGMIN)
    result = INT64 if is_position else dtype
    start = immediate(result, NOWHERE if is_position else fill)
    operand = Operand(Origin.BATCH, dtype, 0, fill, (Row(planes, 0, ((0, 1),)), *rows))
    node = Node(Kind.REDUCE, function, result, (planes, *places), (start, operand), window)
    wanted = Reduction(node).run([None, x], 0)
    threads = get_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_GRAIN_ELEMENTS", 1)
        plan = plan_node(node)
        assert isinstance(plan, WindowReduction) == (places[1] >= 4)
        set_threads(3)
        found = plan.run([None, x], 0)
        set_threads(threads)
    assert encode_elements(found).tobytes() == encode_elements(wanted).tobytes()
