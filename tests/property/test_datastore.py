"""Drawn tensors come from a server bit for bit, whatever breaks; drawn damage is never kept."""

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    SUBTREE_BYTES,
    Array,
    compute_state_root,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.datastore import fetch
from moot.offchain.datastore.objects import TENSORS, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.errors import StoreError
from tests.quick import share
from tests.store_helpers import answering, send_head, serving

DTYPES = list(NUMPY_TYPES.values())

SHAPES = st.one_of(
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.integers(0, 3 * SUBTREE_BYTES).map(lambda count: (count,)),
    st.sampled_from([SUBTREE_BYTES - 1, SUBTREE_BYTES, SUBTREE_BYTES + 1, 5 * SUBTREE_BYTES]).map(
        lambda count: (1, count)
    ),
)
"""Scalars, none, a few, and some whose bytes are many subtrees or end beside the end of one."""


@st.composite
def tensors(draw: st.DrawFn) -> Array:
    """Draw a tensor of any type and shape; floats have all kinds of NaN."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(SHAPES)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    size = int(np.prod(shape)) * dtype.itemsize
    return generator.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


@settings(deadline=None, max_examples=share(60))
@given(st.lists(tensors(), min_size=1, max_size=4))
def test_states_come_bit_for_bit(arrays: list[Array]) -> None:
    """A drawn state has its types, shapes and canonical bytes behind a server, at its own root."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        root = open_store(str(folder / "origin")).put_state(arrays)
        assert root == compute_state_root([*map(compute_tensor_root, arrays)])
        with serving(folder / "origin") as server:
            found = open_store(server.url, folder / "cache").get_state(root)
    assert [(a.dtype, a.shape) for a in found] == [(a.dtype, a.shape) for a in arrays]
    for one, other in zip(found, arrays, strict=True):
        assert one.tobytes() == encode_elements(other).tobytes()


@settings(deadline=None, max_examples=share(60))
@given(tensors(), st.data())
def test_what_breaks_and_what_is_damaged(array: Array, data: st.DataObject) -> None:
    """A server that breaks anywhere, and changes a byte or not: the right tensor, or none."""
    fetch._FIRST_PAUSE_S = 0.0
    with TemporaryDirectory() as name:
        origin = open_store(f"{name}/origin")
        root = origin.put_tensors([array])[0]
        right = (origin.disk.path / name_object(TENSORS, root)).read_bytes()
        breaks = data.draw(st.lists(st.integers(0, len(right)), max_size=3))
        served = bytearray(right)
        is_damaged = data.draw(st.booleans())
        if is_damaged:
            served[data.draw(st.integers(0, len(right) - 1))] ^= data.draw(st.integers(1, 255))

        def answer(connection: socket.socket, _path: str, first: int) -> None:
            place = f"Content-Range: bytes {first}-{len(served) - 1}/{len(served)}"
            status = "206 Partial Content" if first else "200 OK"
            length = f"Content-Length: {len(served) - first}"
            send_head(connection, length, *([place] if first else []), status=status)
            connection.sendall(served[first : breaks.pop() if breaks else len(served)])

        found, problem = None, ""
        with answering(answer) as url:
            store = open_store(url, f"{name}/cache")
            try:
                found = store.get_tensor(root)
            except StoreError as error:
                problem = str(error)
        assert (found is None) == is_damaged == (root.hex() in problem)
        if found is not None:
            assert found.tobytes() == encode_elements(array).tobytes()
        kept = [path.name for path in (store.disk.path / TENSORS).iterdir()]
        assert kept == ([] if is_damaged else [root.hex()])
        if not is_damaged:
            assert not [*(store.disk.path / "partial").iterdir()]
