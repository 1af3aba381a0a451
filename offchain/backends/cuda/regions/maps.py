"""Kernels of maps alone: a thread for each element of the matrix."""

from llvmlite import ir

from moot.offchain.backends.cuda.elements import unravel, write
from moot.offchain.backends.cuda.kernel import Context, Kernel, word
from moot.offchain.backends.cuda.regions.form import Form
from moot.offchain.backends.cuda.regions.values import Place, Values, number_element
from moot.offchain.planning.region import is_row


def make_maps(form: Form) -> Kernel:
    """Return the kernel; its parameters are the addresses of what is read and of the outputs."""
    parameters = len(form.accesses) + len(form.region.stores)
    threads = form.limits.threads

    def phase(context: Context) -> None:
        builder = context.builder
        number = builder.add(builder.mul(context.block, word(threads)), context.thread)
        with builder.if_then(builder.icmp_unsigned("<", number, word(form.elements))):
            _compute(context, form, number)

    return Kernel("region_of_maps", parameters, (phase,), threads)


def count_blocks(form: Form) -> int:
    """Return how many blocks compute all elements."""
    return -(-form.elements // form.limits.threads)


def _compute(context: Context, form: Form, number: ir.Value) -> None:
    """Compute all values at an element, and store those that are wanted."""
    builder, region = context.builder, form.region
    segment, row, column = (
        variable.value
        for variable in unravel(context, number, (region.segments, form.rows, region.columns))
    )
    along = [variable.value for variable in unravel(context, row, region.rows)]
    place = Place(row, along, column, segment)
    values = Values(context, form, place, {}, lambda _: None)
    for index, buffer in region.stores:
        value, dtype = values.get(index), region.values[index].dtype
        address = context.parameters[buffer]
        if not is_row(region.values[index]):
            write(context, dtype, value, address, number_element(context, form, place))
            continue
        is_first = builder.icmp_unsigned("==", builder.or_(column, segment), word(0))
        with builder.if_then(is_first):
            write(context, dtype, value, address, row)
