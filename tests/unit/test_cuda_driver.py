"""The way to a device: what is said when there is none that will do, and what is done with memory.

NVIDIA's library is stood in for by functions with its signatures, whose memory is the process's:
what they are asked for is what the real one would be, and no more can be said without a device.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moot.offchain.backends.cuda import driver, ptx
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.warpgroups import Orders
from moot.offchain.errors import DeviceError, DeviceLost, NotEnoughMemory

OUT_OF_MEMORY, LAUNCH_FAILED, INVALID_VALUE = 2, 719, 1


class Library:
    """A library with the functions of NVIDIA's that the driver calls.

    Args:
        version: of CUDA.
        capability: of its only device.
        size: of the device's memory.
    """

    multiprocessors = 132

    def __init__(
        self, version: int = 12040, capability: tuple[int, int] = (9, 0), size: int = 1 << 20
    ) -> None:
        self.version, self.capability, self.size = version, capability, size
        self.memory: dict[int, Any] = {}
        self.statuses: dict[str, int] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if self.statuses.get(name):
                return self.statuses[name]
            return int(getattr(self, f"_{name.lower()}", lambda *_: 0)(*arguments))

        if not name.startswith("cu"):
            raise AttributeError(name)  # functions that nothing needs succeed
        return call

    def _cudrivergetversion(self, version: Any) -> int:
        version._obj.value = self.version
        return 0

    def _cudevicegetcount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def _cudevicegetname(self, name: Any, _size: int, _device: Any) -> int:
        name.value = b"Stand-in"
        return 0

    def _cudevicegetattribute(self, value: Any, attribute: int, _device: Any) -> int:
        known = {16: self.multiprocessors, 75: self.capability[0], 76: self.capability[1]}
        value._obj.value = known[attribute]
        return 0

    def _cugeterrorstring(self, status: int, text: Any) -> int:
        text._obj.value = {OUT_OF_MEMORY: b"out of memory", LAUNCH_FAILED: b"launch failed"}.get(
            status, b"invalid value"
        )
        return 0

    @property
    def free(self) -> int:
        """How many bytes are left."""
        return self.size - sum(map(len, self.memory.values()))

    def _cumemalloc_v2(self, address: Any, size: Any) -> int:
        if size.value > self.free:
            return OUT_OF_MEMORY
        block = ctypes.create_string_buffer(size.value)
        address._obj.value = ctypes.addressof(block)
        self.memory[address._obj.value] = block
        return 0

    def _cumemfree_v2(self, address: Any) -> int:
        del self.memory[address.value]
        return 0

    def _cumemgetinfo_v2(self, free: Any, whole: Any) -> int:
        free._obj.value, whole._obj.value = self.free, self.size
        return 0

    def _cumemcpyhtod_v2(self, address: Any, content: bytes, size: Any) -> int:
        ctypes.memmove(address.value, content, size.value)
        return 0

    def _cumemcpydtoh_v2(self, content: Any, address: Any, size: Any) -> int:
        ctypes.memmove(content, address.value, size.value)
        return 0

    def _cudeviceprimaryctxreset_v2(self, _device: Any) -> int:
        self.memory.clear()
        return 0


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Library], Library]:
    """Return what puts a library into the place of NVIDIA's."""

    def put(library: Library) -> Library:
        monkeypatch.setattr(driver, "_load_library", lambda: library)
        return library

    return put


Use = Callable[[Library], Library]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a driver, one line says what is missing and what to do."""
    monkeypatch.setattr(driver, "_LIBRARY", "libcuda-that-is-not-here.so.1")
    driver._load_library.cache_clear()
    with pytest.raises(DeviceError, match=r"libcuda-that.* is missing\); install one for CUDA"):
        Driver()
    assert not driver.is_here()
    driver._load_library.cache_clear()


@pytest.mark.parametrize(
    ("library", "number", "said"),
    [
        (Library(version=11080), 0, "driver is for CUDA 11.8, and 12.0 is needed; install a newer"),
        (Library(capability=(7, 0)), 0, "Stand-in has compute capability 7.0, and 7.5 is needed"),
        (Library(), 1, "there is no device 1, but 1 in all"),
    ],
)
def test_what_will_not_do_is_refused(use: Use, library: Library, number: int, said: str) -> None:
    """An old driver, an old device, and one that is not there: what is needed, and what is here."""
    use(library)
    with pytest.raises(DeviceError, match=said) as raised:
        Driver(number)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("function", ["cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"])
def test_a_driver_that_fails_is_reported(use: Use, function: str) -> None:
    """What the driver says is handed on, with what it was asked to do."""
    use(Library()).statuses[function] = INVALID_VALUE
    with pytest.raises(DeviceError, match=r"NVIDIA's driver did not .*: invalid value$"):
        Driver()


def test_a_device_that_will_do_is_taken(use: Use) -> None:
    """It has a name, a capability and a place, and what goes there comes back."""
    use(Library(capability=(7, 5)))
    device = Driver()
    assert (device.name, device.capability, device.place) == ("Stand-in", (7, 5), (2, 0))
    backend = Cuda(device)
    array = np.arange(300, dtype=np.float32).reshape(3, 100)
    assert (backend.fetch(backend.admit(array)) == array).all()


def test_memory_is_used_again_without_asking(use: Use) -> None:
    """Who gives memory back leaves it for the next that needs as much, and nobody waits."""
    library = use(Library())
    device = Driver()
    first = Tensor(device, (1000,), np.float32)
    other = Tensor(device, (1000,), np.float32)
    address = first.address
    assert other.address != address
    del first
    assert Tensor(device, (1020,), np.float32).address == address
    assert library.calls.count("cuMemAlloc_v2") == 2
    assert "cuMemFree_v2" not in library.calls


def test_memory_is_kept_for_its_holder_until_the_device_is_full(use: Use) -> None:
    """A holder has the same again, first what nobody keeps; and all goes to anyone in the end."""
    library = use(Library(size=4 * 512))
    device = Driver()
    free = device.allocate(512)
    device.release(free)
    assert device.allocate(512, 1) == free
    other = device.allocate(512, 2)
    assert other != free
    for address in (free, other):
        device.release(address)
    assert device.get_free_bytes() == 4 * 512
    assert [device.allocate(500, holder) for holder in (2, 1)] == [other, free]
    device.release(other)
    rest = [device.allocate(512) for _ in range(3)]  # the last of which takes what was kept
    device.release(free)
    device.release(rest[0])
    assert {device.allocate(512, 3), device.allocate(512)} == {free, rest[0]}
    assert library.calls.count("cuMemFree_v2") == 1


def test_a_full_device_gives_up_what_nobody_needs_first(use: Use) -> None:
    """Spare memory counts as free, and is given back before a run is refused."""
    library = use(Library(size=10_240))
    device = Driver()
    held = Tensor(device, (1024,), np.uint8)
    del held
    assert device.get_free_bytes() == 10_240
    large = Tensor(device, (10_000,), np.uint8)
    assert library.calls.count("cuMemFree_v2") == 1
    with pytest.raises(NotEnoughMemory, match=r"0.00 GB are available; free some"):
        Tensor(device, (600,), np.uint8)
    with pytest.raises(NotEnoughMemory):
        Cuda(device).require_memory(10_241)
    del large
    Cuda(device).require_memory(10_240)


def test_warp_groups_need_the_architecture_alone(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of theirs is for one architecture and no later one; other code is as it was."""
    use(Library())
    asked: list[str] = []
    monkeypatch.setattr(driver, "translate", lambda _, name: asked.append(name) or "")
    device = Driver()
    for steps in ((), (Orders(()),)):
        device.load(Kernel("some", 0, steps, 128))
    assert asked == ["sm_90", "sm_90a"]


@pytest.mark.parametrize(
    ("size", "barriers"),
    [
        (ptx.MOST_STATIC_BYTES, 0),
        (ptx.MOST_STATIC_BYTES + 16, 0),
        (ptx.MOST_STATIC_BYTES, 1),
    ],
)
def test_much_shared_memory_is_asked_for(
    use: Use, size: int, barriers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What code may not declare is allowed once, and asked for by each launch, barriers with it."""
    library = use(Library())
    monkeypatch.setattr(driver, "translate", lambda *_: "")
    asked: dict[str, tuple[Any, ...]] = {}

    def remember(name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            asked[name] = arguments
            return 0

        return call

    for name in ("cuFuncSetAttribute", "cuLaunchKernel"):
        setattr(library, name, remember(name))
    device = Driver()
    kernel = Kernel("much", 1, (), 64, size, barriers=barriers)
    size += 8 * barriers
    device.launch(device.load(kernel), 3, [5])
    is_large = size > ptx.MOST_STATIC_BYTES
    assert asked["cuLaunchKernel"][1:8] == (3, 1, 1, 64, 1, 1, size if is_large else 0)
    assert ("cuFuncSetAttribute" in asked) == is_large
    if is_large:
        assert asked["cuFuncSetAttribute"][1:] == (8, size)


def test_a_lost_device_is_told_from_a_refusal(use: Use) -> None:
    """After a failed launch nothing is there any more, and tensors that die later harm no other."""
    library = use(Library())
    device = Driver()
    tensor = Tensor(device, (4,), np.float32)
    library.statuses["cuMemcpyDtoH_v2"] = INVALID_VALUE
    with pytest.raises(
        DeviceError, match=r"did not copy from the device: invalid value$"
    ) as raised:
        tensor.get()
    assert not isinstance(raised.value, DeviceLost)
    library.statuses["cuMemcpyDtoH_v2"] = LAUNCH_FAILED
    with pytest.raises(DeviceLost, match=r"launch failed; what Stand-in had .* is gone, so start"):
        tensor.get()
    assert library.calls[-1] == "cuDevicePrimaryCtxReset_v2"
    library.statuses.clear()
    anew = Driver()
    following = Tensor(anew, (4,), np.float32)
    del tensor
    following.put(np.ones(4, np.float32))
    assert following.get().tolist() == [1] * 4
