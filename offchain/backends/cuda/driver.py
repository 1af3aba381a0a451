"""A device behind NVIDIA's driver, which is loaded when it is asked for, and never linked to.

PTX is handed to the driver, which makes it the device's code. All launches are on one stream, one
after the other, but for those of a graph, which wait for what they come after; and copies wait for
the stream as it waits for them. So memory that is given back can be given out again at once, to
what is launched later: the driver, which would wait for the device, is asked for new memory only.
What a holder gives back is kept for that holder, and otherwise the first address that nobody has is
given out, so that runs that are alike have the same addresses before long, and a graph of their
launches can be launched again. A device that was full once keeps nothing for anyone.
"""

import ctypes
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import DEVICE, Vertex
from moot.offchain.backends.cuda.ptx import MOST_STATIC_BYTES, translate
from moot.offchain.backends.cuda.tensor.generations import find_generations
from moot.offchain.errors import DeviceError, DeviceLost, NotEnoughMemory

_LIBRARY = "libcuda.so.1"
_LEAST_VERSION, _LEAST_CAPABILITY = 12000, (7, 5)
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
"""Attributes of a device: its multiprocessors, and the parts of its compute capability."""

_SHARED_BYTES = 8
"""The attribute of a kernel that says how much shared memory its launches may ask for."""

_OUT_OF_MEMORY = 2
_LOST = frozenset({46, 214, 219, 220, 700, 702, 709, *range(714, 720)})
"""Errors after which the driver does nothing more with what it has: unavailable, uncorrectable
memory, links that fail, illegal addresses and instructions, time-outs, failed launches."""

_WITH_OTHERS = 0
"""How a stream keeps the order of what others do on the device by default, as torch does."""

_NAME_BYTES = 256
_GRAIN_BYTES = 512
_Address = ctypes.c_uint64


class Driver:
    """A device.

    Args:
        number: which one.

    Attributes:
        name: what its maker calls it.
        capability: its compute capability.
        generations: the arithmetics of its tensor cores.
        multiprocessors: how many it has.
        place: the kind of its memory, and which one it is.

    Raises:
        DeviceError: there is no driver, it is too old, or there is no such device that is
            new enough.
    """

    def __init__(self, number: int = 0) -> None:
        self._library = _load_library()
        self._is_lost = False
        self._require("start", "cuInit", 0)
        version, device, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._require("ask for its version", "cuDriverGetVersion", ctypes.byref(version))
        if version.value < _LEAST_VERSION:
            raise DeviceError(
                f"NVIDIA's driver is for CUDA {_write_version(version.value)}, and "
                f"{_write_version(_LEAST_VERSION)} is needed; install a newer one, or choose the "
                "backend cpu"
            )
        self._require("count devices", "cuDeviceGetCount", ctypes.byref(count))
        if number >= count.value:
            raise DeviceError(
                f"there is no device {number}, but {count.value} in all; choose the backend cpu"
            )
        self._require("find a device", "cuDeviceGet", ctypes.byref(device), number)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._require("ask for a name", "cuDeviceGetName", name, _NAME_BYTES, device)
        self.name = name.value.decode(errors="replace")
        self.capability = (self._ask(_MAJOR, device), self._ask(_MINOR, device))
        if self.capability < _LEAST_CAPABILITY:
            raise DeviceError(
                f"{self.name} has compute capability {'.'.join(map(str, self.capability))}, and "
                f"{'.'.join(map(str, _LEAST_CAPABILITY))} is needed; choose the backend cpu"
            )
        self.generations = find_generations(self.capability)
        self.multiprocessors = self._ask(_MULTIPROCESSORS, device)
        self.place = DEVICE, number
        self._context, self._device = ctypes.c_void_p(), device
        self._memory: dict[int, tuple[int, int]] = {}
        self._spare: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._was_full = False
        self._known: dict[Kernel, _Loaded] = {}
        self._require(
            "open the device", "cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device
        )
        self._require("use the device", "cuCtxSetCurrent", self._context)
        self._stream = ctypes.c_void_p()
        self._require("open a stream", "cuStreamCreate", ctypes.byref(self._stream), _WITH_OTHERS)

    def _ask(self, attribute: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._require(
            "describe itself", "cuDeviceGetAttribute", ctypes.byref(value), attribute, device
        )
        return value.value

    def _call(self, function: str, *arguments: Any) -> int:
        return int(getattr(self._library, function)(*arguments))

    def _require(self, purpose: str, function: str, *arguments: Any) -> None:
        self._check(purpose, self._call(function, *arguments))

    def _check(self, purpose: str, status: int) -> None:
        if not status:
            return
        problem = f"NVIDIA's driver did not {purpose}: {self._explain(status)}"
        if status not in _LOST:
            raise DeviceError(problem)
        self._is_lost = True
        self._call("cuDevicePrimaryCtxReset_v2", self._device)
        raise DeviceLost(f"{problem}; what {self.name} had in its memory is gone, so start anew")

    def _explain(self, status: int) -> str:
        text = ctypes.c_char_p()
        if self._call("cuGetErrorString", status, ctypes.byref(text)) or text.value is None:
            return f"error {status}"
        return text.value.decode()

    def allocate(self, size: int, holder: int = 0) -> int:
        """Return the address of so many bytes: what the holder had before, or nobody keeps.

        Raises:
            NotEnoughMemory: the device has not so many.
        """
        size = -(-size // _GRAIN_BYTES) * _GRAIN_BYTES
        spare = self._find_spare(size, holder) or self._find_spare(size, 0)
        found = heappop(spare) if spare else self._get_new(size)
        self._memory[found] = size, holder
        return found

    def _find_spare(self, size: int, holder: int) -> list[int]:
        """Return the memory of this size that is kept for a holder; 0 for whoever asks."""
        return self._spare[size, 0 if self._was_full else holder]

    def _get_new(self, size: int) -> int:
        """Return the address of memory that the driver gives."""
        address = _Address()
        arguments = ctypes.byref(address), ctypes.c_size_t(size)
        status = self._call("cuMemAlloc_v2", *arguments)
        if status == _OUT_OF_MEMORY:
            self._give_back()
            status = self._call("cuMemAlloc_v2", *arguments)
        if status == _OUT_OF_MEMORY:
            raise NotEnoughMemory(size, self.get_free_bytes() or 0)
        self._check("give memory", status)
        return address.value

    def release(self, address: int) -> None:
        """Take memory back, for its holder or whoever asks for as much next."""
        heappush(self._find_spare(*self._memory[address]), address)

    def _give_back(self) -> None:
        """Give the driver all memory that nobody needs."""
        for address in (a for addresses in self._spare.values() for a in addresses):
            self._require("take memory back", "cuMemFree_v2", _Address(address))
            del self._memory[address]
        self._spare.clear()
        self._was_full = True

    def upload(self, address: int, content: bytes) -> None:
        """Copy bytes to the device."""
        size = ctypes.c_size_t(len(content))
        self._require("copy to the device", "cuMemcpyHtoD_v2", _Address(address), content, size)

    def download(self, address: int, size: int) -> bytes:
        """Copy bytes from the device, when it has done all that it was asked to."""
        content = ctypes.create_string_buffer(size)
        arguments = content, _Address(address), ctypes.c_size_t(size)
        self._require("copy from the device", "cuMemcpyDtoH_v2", *arguments)
        return content.raw

    def load(self, kernel: Kernel) -> "_Loaded":
        """Have the device's code made of a kernel, once."""
        if kernel not in self._known:
            size = kernel.block_bytes if kernel.block_bytes > MOST_STATIC_BYTES else 0
            self._known[kernel] = _Loaded(self._compile(kernel), kernel.threads, size)
            if size:
                arguments = self._known[kernel].function, _SHARED_BYTES, size
                self._require("give shared memory", "cuFuncSetAttribute", *arguments)
        return self._known[kernel]

    def _compile(self, kernel: Kernel) -> ctypes.c_void_p:
        """Return the driver's handle of a kernel."""
        architecture = f"sm_{''.join(map(str, self.capability))}{'a' * kernel.has_groups}"
        code = translate(kernel, architecture).encode() + b"\0"
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._require("compile a kernel", "cuModuleLoadData", ctypes.byref(module), code)
        self._require(
            "find a kernel",
            "cuModuleGetFunction",
            ctypes.byref(function),
            module,
            kernel.name.encode(),
        )
        return function

    def launch(self, loaded: "_Loaded", blocks: int, parameters: Sequence[int]) -> None:
        """Launch a kernel."""
        function, threads, shared_bytes = loaded
        given = _Parameters(parameters)
        grid = blocks, 1, 1, threads, 1, 1, shared_bytes
        arguments = *grid, self._stream, given.places, None
        self._require("launch a kernel", "cuLaunchKernel", function, *arguments)

    def record(self, vertices: Sequence[Vertex]) -> "Graph":
        """Return launches as one graph, without launching any of them."""
        plan, made = ctypes.c_void_p(), ctypes.c_void_p()
        self._require("begin a graph", "cuGraphCreate", ctypes.byref(plan), ctypes.c_uint(0))
        try:
            self._add(plan, vertices)
            arguments = ctypes.byref(made), plan, ctypes.c_uint64(0)
            self._require("make a graph", "cuGraphInstantiateWithFlags", *arguments)
        finally:
            if not self._is_lost:
                self._call("cuGraphDestroy", plan)
        return Graph(self, made)

    def _add(self, plan: ctypes.c_void_p, vertices: Sequence[Vertex]) -> None:
        """Add launches to the plan of a graph, each after those that it has to come after."""
        handles = list[int | None]()
        for (loaded, blocks, parameters), after in vertices:
            kernel, threads, shared_bytes = loaded
            given, handle = _Parameters(parameters), ctypes.c_void_p()
            node = _KernelNode(kernel, (blocks, 1, 1), (threads, 1, 1), shared_bytes, given.places)
            others = (ctypes.c_void_p * len(after))(*(handles[number] for number in after))
            arguments = ctypes.byref(handle), plan, others, ctypes.c_size_t(len(after))
            function = "cuGraphAddKernelNode_v2"
            self._require("add a kernel to a graph", function, *arguments, ctypes.byref(node))
            handles.append(handle.value)

    def replay(self, recorded: "Graph") -> None:
        """Launch all of a graph."""
        self._require("launch a graph", "cuGraphLaunch", recorded.handle, self._stream)

    def drop(self, handle: ctypes.c_void_p) -> None:
        """Take a graph back that is done, unless the device was lost with it."""
        if not self._is_lost:
            self._call("cuStreamSynchronize", self._stream)
            self._call("cuGraphExecDestroy", handle)

    def wait(self) -> None:
        """Return when the device has done all that it was asked to."""
        self._require("finish", "cuCtxSynchronize")

    def get_free_bytes(self) -> int | None:
        """Return how much of the device's memory is free."""
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self._require(
            "count its memory", "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole)
        )
        spare = sum(size * len(addresses) for (size, _), addresses in self._spare.items())
        return free.value + spare


class _Parameters:
    """The parameters of a launch as the driver is given them.

    Attributes:
        places: where each of them is, as long as this is there.
    """

    def __init__(self, parameters: Sequence[int]) -> None:
        self._words = (ctypes.c_int64 * len(parameters))(*parameters)
        first, size = ctypes.addressof(self._words), ctypes.sizeof(ctypes.c_int64)
        addresses = range(first, first + size * len(parameters), size)
        self.places = (ctypes.c_void_p * len(parameters))(*addresses)


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2, which drivers have from CUDA 12.0 on.

    The driver copies the parameters when it is asked to add a node. `kern` would be in place of
    `func`, and `ctx` goes with it.
    """

    _fields_ = (
        ("func", ctypes.c_void_p),
        ("gridDim", ctypes.c_uint * 3),
        ("blockDim", ctypes.c_uint * 3),
        ("sharedMemBytes", ctypes.c_uint),
        ("kernelParams", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("ctx", ctypes.c_void_p),
    )


class _Loaded(NamedTuple):
    """A kernel that the device has code of.

    Attributes:
        function: the driver's handle.
        threads: the threads of a block.
        shared_bytes: the shared memory that each launch asks for, besides what the code declares.
    """

    function: ctypes.c_void_p
    threads: int
    shared_bytes: int


class Graph:
    """A graph of launches in the driver's hands.

    Args:
        driver: whose it is.
        handle: the driver's name for it.

    Attributes:
        handle: that.
    """

    def __init__(self, driver: Driver, handle: ctypes.c_void_p) -> None:
        self._driver, self.handle = driver, handle

    def __del__(self) -> None:
        self._driver.drop(self.handle)


def is_here() -> bool:
    """Return whether there is a driver; what it drives may still be too old."""
    try:
        _load_library()
    except DeviceError:
        return False
    return True


@cache
def _load_library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise DeviceError(
            f"there is no NVIDIA driver ({_LIBRARY} is missing); install one for CUDA "
            f"{_write_version(_LEAST_VERSION)} or later, or choose the backend cpu"
        ) from error


def _write_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
