"""PTX of kernels, by the LLVM that is installed: every rounding is said, and nothing is fused.

`check` reads what came out: a float operation that is approximate, flushes subnormal numbers or is
not said to round to nearest is refused, and so is whatever makes an order of its own (atomics).
What tensor cores may do is to add up products of bytes, and of bfloat16 where a kernel says so,
by warps or by warp groups.
What was made is kept on disk by the hash of all that it follows from, as other machine code is.
"""

import hashlib
import re
from collections.abc import Sequence

from llvmlite import binding, ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.kernel import (
    BARRIER_BYTES,
    COPIED_BYTES,
    WARP,
    Bulk,
    Context,
    Copy,
    Kernel,
    Locate,
    Loop,
    Phase,
    Products,
    is_apart,
    word,
)
from moot.offchain.backends.cuda.warpgroups import Await, Commit, Fence, Multiply, Orders
from moot.offchain.cache import Cache
from moot.offchain.native import vectors
from moot.offchain.native.vectors import BYTE, FLOAT, INDEX, WORD

TRIPLE = "nvptx64-nvidia-cuda"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
"""The oldest devices that are supported, and newer ones."""

MOST_STATIC_BYTES = 48 << 10
"""Shared memory that code may declare; more than that is asked for with each launch."""

_GLOBAL, _SHARED, _CLUSTER = 1, 3, 7
_BIT, _NOTHING = ir.IntType(1), ir.VoidType()
_OWN_ALIGNMENT = 8
_OPTIMIZATION = 3

_BYTES = r"mma\.sync\.aligned\.m(16n8k32|8n8k16)\.row\.col\.s32\.s8\.s8\.s32(?![.\w])"
"""What tensor cores may do: sums of products of bytes, which wrap around and round nothing."""

_BLOCKS = r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32(?![.\w])"
"""What they may do besides in kernels that have such products: blocks of products of bfloat16."""

_GROUPS = (
    r"wgmma\.((fence|commit_group|wait_group)\.sync\.aligned(?![.\w])"
    r"|mma_async\.sync\.aligned\.m64n(64|128|256)"
    r"(k16\.f32\.bf16\.bf16 .*, 1, 1, 1, [01], [01]|k32\.s32\.s8\.s8 \{[^}]*\}(, %rd\d+){2}, 1);)"
)
"""What warp groups may do in kernels that have such products: add to what was there, unnegated, and
of bytes unsaturated."""

_CORES = r"\b(?!{})(w?mma|wgmma|tcgen05)\b"

_FORBIDDEN = {
    r"\.ftz\b": "subnormal numbers are flushed",
    r"\.approx\b": "an operation is approximate",
    r"\b(atom|red)\.": "an atomic operation has no order",
    r"\b(add|sub|mul|div|fma|mad|sqrt|rcp)(\.r[zmp])\.f": "a result is not rounded to nearest",
    r"\b(add|sub|mul|div|fma|mad|sqrt|rcp)\.f(32|64)\b": "a rounding is left to the assembler",
    r"\b(div|rcp|sqrt)\.full\b": "a division is approximate",
    r"\bcall\b": "a function is called that is not here",
}
_NO_SUM = "a tensor core does not sum bytes as integers, or blocks where the kernel does"
_FEATURES = {"sm_75": "+ptx65"}
"""What the assembler's language needs for products of bytes, where that is not the default."""

_texts = Cache("device-kernels", b"moot ptx 1\n")


class UnfaithfulCodeError(Exception):
    """PTX does not say what the arithmetic demands."""


def translate(kernel: Kernel, architecture: str) -> str:
    """Return the PTX of a kernel for devices of an architecture, such as `sm_80`.

    Raises:
        UnfaithfulCodeError: the code does not keep the arithmetic.
    """
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    features = _FEATURES.get(architecture, "")
    machine = target.create_target_machine(cpu=architecture, features=features, opt=_OPTIMIZATION)
    written = str(_write(kernel, str(machine.target_data)))
    versions = ".".join(map(str, binding.llvm_version_info)), architecture, features
    origin = hashlib.sha256("\n".join([*versions, written]).encode()).hexdigest()
    known = _texts.read(origin)
    text = _compile(machine, written) if known is None else known.decode()
    check(text, has_blocks=kernel.has_blocks, has_groups=kernel.has_groups)
    if known is None:
        _texts.write(origin, text.encode())
    return text


def _compile(machine: binding.TargetMachine, written: str) -> str:
    """Return the PTX of a module that is given as text in LLVM's language."""
    module = binding.parse_assembly(written)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=_OPTIMIZATION)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    text: str = machine.emit_assembly(module)
    return text


def check(text: str, *, has_blocks: bool = False, has_groups: bool = False) -> None:
    """Refuse PTX that does not keep the arithmetic (`UnfaithfulCodeError`).

    Args:
        text: the PTX.
        has_blocks: whether the kernel's warps multiply bfloat16 on tensor cores.
        has_groups: whether its warp groups multiply.
    """
    some = _BYTES, *[_BLOCKS] * has_blocks, *[_GROUPS] * has_groups
    allowed = f"({'|'.join(some)})"
    forbidden = {**_FORBIDDEN, _CORES.format(allowed): _NO_SUM}
    for line in text.splitlines():
        code = line.split("//")[0]
        for pattern, reason in forbidden.items():
            if re.search(pattern, code):
                raise UnfaithfulCodeError(f"{reason}: {code.strip()}")


class _OnDevice(Context):
    """A thread of a device."""

    def __init__(
        self, builder: ir.IRBuilder, parameters: Sequence[ir.Value], kernel: Kernel
    ) -> None:
        self.builder, self.parameters = builder, parameters
        self.turn = word(0)
        self.block, self.thread = (self._read_register(name) for name in ("ctaid", "tid"))
        self._cells = [builder.alloca(INDEX) for _ in range(kernel.cells)]
        self._own = (
            builder.alloca(ir.ArrayType(BYTE, kernel.own_bytes)) if kernel.own_bytes else None
        )
        if self._own is not None:
            self._own.align = _OWN_ALIGNMENT
        self._shared: ir.GlobalVariable | None = None
        self._barriers, self._sums = kernel.shared_bytes, kernel.sums
        self._sum = _get_sum(*{each.block for each in kernel.group_products})
        if kernel.block_bytes:
            kind = ir.ArrayType(BYTE, kernel.block_bytes)
            if kernel.block_bytes > MOST_STATIC_BYTES:
                kind = ir.ArrayType(BYTE, 0)
            self._shared = ir.GlobalVariable(builder.module, kind, "shared", addrspace=_SHARED)
            self._shared.align = kernel.alignment
            if kind.count:
                self._shared.linkage = "internal"
                self._shared.initializer = ir.Constant(kind, ir.Undefined)

    def _read_register(self, name: str) -> ir.Value:
        signature = ir.FunctionType(INDEX, [])
        full = f"llvm.nvvm.read.ptx.sreg.{name}.x"
        function = self.builder.module.declare_intrinsic(full, fnty=signature)
        return self.builder.zext(self.builder.call(function, []), WORD)

    def load(self, kind: ir.Type, address: ir.Value, *, is_given: bool = False) -> ir.Value:
        pointer = self.builder.inttoptr(address, kind.as_pointer(_GLOBAL))
        loaded = self.builder.load(pointer, align=_align(kind))
        if is_given:
            loaded.set_metadata("invariant.load", self.builder.module.add_metadata([]))
        return loaded

    def store(self, value: ir.Value, address: ir.Value) -> None:
        pointer = self.builder.inttoptr(address, value.type.as_pointer(_GLOBAL))
        self.builder.store(value, pointer, align=_align(value.type))

    def _locate(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        assert self._shared is not None
        place = self.builder.gep(self._shared, [word(0), offset])
        return self.builder.bitcast(place, kind.as_pointer(_SHARED))

    def load_shared(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return self.builder.load(self._locate(kind, offset), align=_align(kind))

    def store_shared(self, value: ir.Value, offset: ir.Value) -> None:
        self.builder.store(value, self._locate(value.type, offset), align=_align(value.type))

    def load_matrices(self, count: int, locate: Locate, *, is_turned: bool) -> list[ir.Value]:
        """Load matrices by the instruction that does: thread t has row t % 8 of matrix t // 8."""
        builder, lane = self.builder, self.builder.urem(self.thread, word(WARP))
        number = builder.urem(builder.udiv(lane, word(8)), word(count))
        place = self._locate(BYTE, locate(number, builder.urem(lane, word(8))))
        turned = ".trans" if is_turned else ""
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{turned}.b16.p{_SHARED}"
        signature = ir.FunctionType(ir.LiteralStructType([INDEX] * count), [place.type])
        function = builder.module.declare_intrinsic(name, fnty=signature)
        found = builder.call(function, [place])
        return [builder.extract_value(found, cell) for cell in range(count)]

    def begin_copies(self, copies: Sequence[Copy], ticket: ir.Value) -> None:  # noqa: ARG002 - groups are counted
        builder, size = self.builder, INDEX(COPIED_BYTES)
        for copy in copies:
            source = builder.inttoptr(copy.address, BYTE.as_pointer(_GLOBAL))
            target = self._locate(BYTE, copy.offset)
            given = [target, source]
            name = "llvm.nvvm.cp.async.cg.shared.global.16"
            if copy.is_there is not None:
                given.append(builder.select(copy.is_there, size, INDEX(0)))
                name = f"{name}.s"
            self._call(name, given)
        self._call("llvm.nvvm.cp.async.commit.group", [])

    def end_copies(self, ticket: ir.Value, later: int) -> None:  # noqa: ARG002 - likewise
        self._call("llvm.nvvm.cp.async.wait.group", [INDEX(later)])

    def publish_copies(self) -> None:
        self._call("llvm.nvvm.fence.proxy.async.shared_cta", [])

    def _find_barrier(self, barrier: ir.Value) -> ir.Value:
        offset = self.builder.mul(barrier, word(BARRIER_BYTES))
        return self._locate(BYTE, self.builder.add(offset, word(self._barriers)))

    def begin_barriers(self, count: int) -> None:
        """Set all barriers to their first phase, which one call ends."""
        with self.builder.if_then(self.builder.icmp_unsigned("==", self.thread, word(0))):
            for number in range(count):
                given = self._find_barrier(word(number)), INDEX(1)
                self._call("llvm.nvvm.mbarrier.init.shared", given)
            self._call("llvm.nvvm.fence.mbarrier_init.release.cluster", [])
            self.publish_copies()
        self.wait()

    def begin_bulk(self, copies: Sequence[Bulk], barrier: ir.Value) -> None:
        builder, place = self.builder, self._find_barrier(barrier)
        given = place, INDEX(sum(copy.size for copy in copies))
        self._call("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", given, WORD)
        for copy in copies:
            target = self._locate(BYTE, copy.offset)
            source = builder.inttoptr(copy.address, BYTE.as_pointer(_GLOBAL))
            distributed = builder.addrspacecast(target, BYTE.as_pointer(_CLUSTER))
            plain = ir.IntType(16)(0), WORD(0), _BIT(0), _BIT(0)
            all_given = distributed, place, source, INDEX(copy.size), *plain
            self._call("llvm.nvvm.cp.async.bulk.global.to.shared.cluster", all_given)

    def end_bulk(self, barrier: ir.Value, parity: ir.Value) -> None:
        builder, place = self.builder, self._find_barrier(barrier)
        again, behind = (builder.append_basic_block(name) for name in ("again", "behind"))
        half = builder.trunc(parity, INDEX)
        builder.branch(again)
        builder.position_at_end(again)
        name = "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta"
        builder.cbranch(self._call(name, [place, half], _BIT), behind, again)
        builder.position_at_end(behind)

    def find_shared(self, offset: ir.Value) -> ir.Value:
        return self.builder.ptrtoint(self._locate(BYTE, offset), WORD)

    def obey(self, orders: Orders) -> None:
        """Ask for products of warp groups, and for what orders them."""
        for order in orders.orders:
            match order:
                case Fence():
                    self._order_sums("wgmma.fence.sync.aligned;")
                case Commit():
                    self._call("llvm.nvvm.wgmma.commit_group.sync.aligned", [])
                case Await():
                    self._order_sums(f"wgmma.wait_group.sync.aligned {order.later};")
                case Multiply():
                    self._begin_product(order)

    def _order_sums(self, text: str) -> None:
        """Write an instruction that nothing that threads do to sums is moved across."""
        cells, count, (kind, register, _) = self._sums, len(self._sums), self._sum
        tied = [*[register] * count, *map(str, range(count))]
        signature = ir.FunctionType(ir.LiteralStructType([kind] * count), [kind] * count)
        self._assemble(signature, text, tied, [self.get_cell(cell, kind) for cell in cells], cells)

    def _assemble(
        self,
        signature: ir.FunctionType,
        text: str,
        constraints: Sequence[str],
        given: Sequence[ir.Value],
        cells: Sequence[int],
    ) -> None:
        """Write an instruction of the assembler's that sets cells."""
        code = ir.InlineAsm(signature, text, ",".join(constraints), side_effect=True)
        found = self.builder.call(code, given, attrs=("convergent",))
        for place, cell in enumerate(cells):
            self.set_cell(cell, self.builder.extract_value(found, place))

    def _begin_product(self, order: Multiply) -> None:
        """Begin a product: the sum's registers are read and written, no other is touched."""
        builder, count, (kind, register, types) = self.builder, order.cells, self._sum
        cells = range(order.sums, order.sums + count)
        given = [self.get_cell(cell, kind) for cell in cells]
        for first, ahead in zip(order.descriptors, order.ahead, strict=True):
            low, high = (builder.zext(self.get_cell(first + n, INDEX), WORD) for n in (0, 1))
            whole = builder.or_(low, builder.shl(high, word(INDEX.width)))
            given.append(builder.add(whole, word(ahead // COPIED_BYTES)))
        sums = ", ".join(f"${place}" for place in range(count))
        name = f"wgmma.mma_async.sync.aligned.m64n{order.columns}k{order.depth}.{types}"
        signs = () if order.block is None else (1, 1, *map(int, order.is_turned))
        last = ", ".join(map(str, (1, *signs)))
        text = f"{name} {{{sums}}}, ${2 * count}, ${2 * count + 1}, {last};"
        tied = [*[register] * count, *map(str, range(count)), "l", "l"]
        kinds = [kind] * count
        signature = ir.FunctionType(ir.LiteralStructType(kinds), [*kinds, WORD, WORD])
        self._assemble(signature, text, tied, given, cells)

    def _call(self, name: str, given: Sequence[ir.Value], kind: ir.Type = _NOTHING) -> ir.Value:
        """Call an intrinsic, which returns nothing if it is not said what."""
        signature = ir.FunctionType(kind, [value.type for value in given])
        function = self.builder.module.declare_intrinsic(name, fnty=signature)
        return self.builder.call(function, given)

    def _locate_own(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        assert self._own is not None
        place = self.builder.gep(self._own, [word(0), offset])
        return self.builder.bitcast(place, kind.as_pointer())

    def load_own(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return self.builder.load(self._locate_own(kind, offset), align=_align(kind))

    def store_own(self, value: ir.Value, offset: ir.Value) -> None:
        self.builder.store(value, self._locate_own(value.type, offset), align=_align(value.type))

    def get_cell(self, number: int, kind: ir.Type = FLOAT) -> ir.Value:
        value = self.builder.load(self._cells[number])
        return value if kind is INDEX else self.builder.bitcast(value, kind)

    def set_cell(self, number: int, value: ir.Value) -> None:
        if value.type is not INDEX:
            value = self.builder.bitcast(value, INDEX)
        self.builder.store(value, self._cells[number])

    def multiply(self, products: Products) -> None:
        """Multiply matrices by tensor cores, from cells and into cells."""
        builder, instruction = self.builder, products.instruction
        first, second, third = instruction.cells
        element, factor = (INDEX, "s8") if instruction.block is None else (FLOAT, "bf16")
        kinds = [INDEX] * (first + second) + [element] * third
        signature = ir.FunctionType(ir.LiteralStructType([element] * third), kinds)
        name = f"llvm.nvvm.mma.{instruction.name}.row.col.{factor}"
        function = builder.module.declare_intrinsic(name, fnty=signature)
        for firsts in products.places:
            numbers = [
                first + cell
                for first, count in zip(firsts, instruction.cells, strict=True)
                for cell in range(count)
            ]
            given = [self.get_cell(*pair) for pair in zip(numbers, kinds, strict=True)]
            found = builder.call(function, given)
            for cell in range(third):
                self.set_cell(firsts[-1] + cell, builder.extract_value(found, cell))

    def wait(self) -> None:
        """Wait until all threads of the block are here."""
        self._call("llvm.nvvm.barrier0", [])


def _get_sum(*blocks: Block | None) -> tuple[ir.Type, str, str]:
    """Return the type of sums of warp groups, their register, and the instruction's types."""
    return (INDEX, "=r", "s32.s8.s8") if None in blocks else (FLOAT, "=f", "f32.bf16.bf16")


def _align(kind: ir.Type) -> int:
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    width = 32 if isinstance(element, ir.FloatType) else 64
    return (element.width if isinstance(element, ir.IntType) else width) // 8


def _write(kernel: Kernel, layout: str) -> ir.Module:
    """Return a module with the kernel: all of its phases, and barriers between them."""
    module = ir.Module()
    module.triple, module.data_layout = TRIPLE, layout
    signature = ir.FunctionType(ir.VoidType(), [WORD] * kernel.parameters)
    function = ir.Function(module, signature, kernel.name)
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block())
    context = _OnDevice(builder, function.args, kernel)
    if kernel.barriers:
        context.begin_barriers(kernel.barriers)
    for number, step in enumerate(kernel.steps):
        if number:
            context.wait()
        if isinstance(step, Loop):
            _write_loop(context, step.phases, function.args[step.count])
        else:
            _write_step(context, step)
    builder.ret_void()
    limit = [function, ir.MetaDataString(module, "maxntidx"), INDEX(kernel.threads)]
    module.add_named_metadata("nvvm.annotations", limit)
    return module


def _write_step(context: _OnDevice, step: Phase | Products | Orders) -> None:
    if isinstance(step, Products):
        context.multiply(step)
    elif isinstance(step, Orders):
        context.obey(step)
    else:
        step(context)


def _write_loop(
    context: _OnDevice, phases: Sequence[Phase | Products | Orders], count: ir.Value
) -> None:
    def turn(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        context.turn = number
        for place, phase in enumerate(phases):
            _write_step(context, phase)
            if is_apart(phase, phases[(place + 1) % len(phases)]):
                context.wait()
        return []

    vectors.repeat(context.builder, count, [], turn)
    context.turn = word(0)
