"""Tensors exchanged with torch and numpy by DLPack, in the memory where they are."""

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from moot.offchain.backends.cuda import exchange
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.errors import DeviceError, ProgramError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from tests.unit.test_cuda import NEEDS_DEVICE

ARRAYS: list[np.ndarray] = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.arange(-3, 3, dtype=np.int64),
    np.arange(8, dtype=np.int32).reshape(2, 2, 2),
    np.array([True, False, True]),
    np.array(7, np.float32),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_others_read_a_tensor_where_it_is(array: np.ndarray) -> None:
    """Numpy and torch see the elements without a copy, and see what becomes of them."""
    tensor = Cuda(Emulator()).admit(array)
    theirs, seen = torch.utils.dlpack.from_dlpack(tensor), np.from_dlpack(tensor)
    assert theirs.data_ptr() == tensor.address == seen.ctypes.data
    assert tuple(theirs.shape) == seen.shape == array.shape
    assert (theirs.numpy() == array).all()
    tensor.put(np.zeros_like(array))
    assert not theirs.any()
    assert not seen.any()


def test_two_bytes_are_bfloat16() -> None:
    """What we keep as patterns of two bytes, torch sees as bfloat16."""
    values = torch.tensor([1.5, -2.0, 0.0], dtype=torch.bfloat16)
    tensor = Cuda(Emulator()).admit(values.view(torch.uint16).numpy())
    assert torch.equal(torch.utils.dlpack.from_dlpack(tensor), values)


def test_a_tensor_lives_as_long_as_its_readers() -> None:
    """Memory is given back after the last reader is gone, whoever lets go first."""
    machine = Emulator()
    tensor = Cuda(machine).admit(ARRAYS[0])
    theirs = torch.utils.dlpack.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert theirs.sum() == ARRAYS[0].sum()
    assert machine._memory
    del theirs
    gc.collect()
    assert not machine._memory
    assert not exchange._held


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_of_torch_are_adopted_where_they_are(dtype: torch.dtype) -> None:
    """A tensor of torch is used in place, and given back."""
    backend = Cuda(Emulator())
    theirs = torch.arange(64).reshape(8, 8).to(dtype)
    tensor = backend.adopt(theirs)
    assert (tensor.address, tensor.shape) == (theirs.data_ptr(), (8, 8))
    bits = tensor.get()
    raw = theirs.view(torch.uint16) if dtype is torch.bfloat16 else theirs
    assert (bits == raw.numpy()).all()
    address = theirs.data_ptr()
    del theirs
    gc.collect()
    assert (tensor.get() == bits).all()
    assert tensor.address == address


@pytest.mark.parametrize(
    ("external", "error", "said"),
    [
        (torch.zeros(2, dtype=torch.float64), ProgramError, "type 2 with 64 bits.*convert it"),
        (torch.zeros(4, 4).T[:2], ProgramError, "not contiguous"),
        (torch.zeros(9)[1:], ProgramError, "starts within another"),
        (torch.zeros(0), ProgramError, "is empty"),
        (
            SimpleNamespace(__dlpack_device__=lambda: (2, 1)),
            DeviceError,
            "is on an NVIDIA device, number 1, and the program runs on the processor",
        ),
        (SimpleNamespace(__dlpack_device__=lambda: (10, 0)), DeviceError, "of kind 10, number 0"),
    ],
)
def test_what_cannot_be_adopted_is_refused(
    external: Any, error: type[Exception], said: str
) -> None:
    """The message is one line, and says what to do."""
    with pytest.raises(error, match=said) as raised:
        Cuda(Emulator()).adopt(external)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("backend", ["cuda-emulator", pytest.param("cuda", marks=NEEDS_DEVICE)])
def test_torch_reads_a_state_that_stays(backend: str) -> None:
    """Torch sees the tensors of a state that is kept from step to step."""
    captured = capture(build("mlp"), trust=True)
    state: list[Any] = list(captured.initial_state)
    Executor(captured.program, backend=backend).advance(state, captured.batch(0), 0)
    for tensor in state:
        assert (torch.utils.dlpack.from_dlpack(tensor).cpu().numpy() == np.asarray(tensor)).all()


@pytest.mark.parametrize("number", [pytest.param(0, marks=NEEDS_DEVICE)])
def test_a_device_exchanges_tensors_with_torch(number: int) -> None:
    """A device's tensor is torch's on that device, and the other way round."""
    backend = Cuda(Driver(number))
    theirs = torch.utils.dlpack.from_dlpack(backend.admit(ARRAYS[0]))
    assert theirs.is_cuda
    assert (backend.adopt(theirs * 2).get() == 2 * ARRAYS[0]).all()
