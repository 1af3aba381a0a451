"""What kernels take for granted is stated in one place, and no plan can break it."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import kernels
from moot.offchain.backends.cpu.gathers import Gather, plan_gather
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.kernels.fused.indexed import Indexed
from moot.offchain.backends.cpu.kernels.largest import find_largest
from moot.offchain.backends.cpu.kernels.sorting import sort_lines
from moot.offchain.backends.cpu.panels import Panels
from moot.offchain.backends.cpu.sliding import Sliding
from moot.offchain.backends.cpu.views import view
from moot.offchain.errors import BrokenPrecondition
from moot.offchain.execution.debugging import watch
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.execution.readable import run_step
from moot.offchain.planning.accesses import Strided
from moot.offchain.planning.back_to_back import BackToBack
from moot.offchain.planning.chains import Chain
from moot.offchain.planning.gathers import Addressed, Coordinate, find_addressed
from moot.offchain.planning.preconditions import Form
from moot.offchain.planning.region import Apply, Gathered, Load, Region
from moot.offchain.planning.roles import Group
from moot.offchain.planning.selections import Selection
from moot.offchain.planning.sorts import Sort
from moot.offchain.planning.tails import Tail
from moot.offchain.planning.vertical import Vertical, VerticalFold, find_stack
from moot.offchain.planning.windows import WindowFold, find_window
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.fuzz.compare import Mode, using
from tests.fuzz.joined import draw_joined_program
from tests.fuzz.rounds import draw_rounds_program, set_counters
from tests.fuzz.values import draw_tensors

F32, I64 = DType.FLOAT32, DType.INT64
_ZERO = immediate(F32, 0)


def read(shape: tuple[int, ...], variables: tuple[int, ...], dtype: DType = F32) -> Operand:
    """Return an access to a tensor of the batch whose axes are these variables."""
    rows = tuple(Row(size, 0, ((v, 1),)) for size, v in zip(shape, variables, strict=True))
    return Operand(Origin.BATCH, dtype, 0, 0, rows)


def find_unit(draw: Callable[[Random], Any], kind: type[Form]) -> Any:
    """Return the first form of a kind that drawn programs are planned with."""
    with using(Mode(1, is_fused=True, is_least=False)):
        for number in range(100):
            for task in Preparation(draw(Random(number))).schedule():
                if isinstance(task.unit, kind):
                    return task.unit
    raise AssertionError(f"no program has a {kind.__name__}")


PRODUCT = Node(
    Kind.CONTRACT,
    Function.FMA,
    F32,
    (4, 16),
    (_ZERO, read((4, 2), (0, 2)), read((2, 16), (2, 1))),
    (2,),
)
SUM = Node(Kind.MAP, Function.ADD, F32, (4, 16), (read((4, 16), (0, 1)), read((4, 16), (0, 1))))
COLUMN_SUM = Node(Kind.REDUCE, Function.ADD, F32, (8,), (_ZERO, read((5, 8), (1, 0))), (5,))
WINDOW = Operand(Origin.BATCH, F32, 0, 0, (Row(2, 0, ((0, 1),)), Row(6, 0, ((1, 1), (2, 1)))))
POOLING = Node(Kind.REDUCE, Function.MAX, F32, (2, 4), (_ZERO, WINDOW), (3,))
GATHER = Node(
    Kind.GATHER, Function.COPY, F32, (4, 3), (read((5, 3), (2, 1)), read((4,), (0,), I64))
)
LOAD = Load(F32, 0, 0, (4,), 1)


@cache
def get_form(kind: type[Form]) -> Any:
    """Return a form of a kind whose preconditions all hold."""
    stack, addressed = find_stack(COLUMN_SUM), find_addressed(GATHER)
    assert stack is not None
    vertical = Vertical((0,), (COLUMN_SUM,), stack)
    makers: dict[type[Form], Callable[[], Any]] = {
        Selection: lambda: find_unit(draw_rounds_program, Selection),
        Sort: lambda: Sort(
            (7,),
            ((7, SUM),),
            (3, 20),
            Strided(0, (20, 1)),
            1,
            False,
            (read((3, 20), (0, 1)), read((20,), (1,), I64)),
        ),
        Vertical: lambda: vertical,
        VerticalFold: lambda: vertical.fold,
        WindowFold: lambda: find_window(POOLING),
        Chain: lambda: Chain((0, 1, 2), (PRODUCT, PRODUCT), SUM, None, (4, 16)),
        BackToBack: lambda: find_unit(draw_joined_program, BackToBack),
        Group: lambda: get_form(BackToBack).group,
        Region: lambda: Region(
            (2,), 4, 4, 1, (LOAD, Apply(F32, Function.NEG, (0,), is_row=False)), ((1, 1),)
        ),
        Addressed: lambda: addressed,
        Tail: lambda: Tail(LOAD, 0xFF800000, 32, 1, frozenset()),
        Sliding: lambda: Sliding(1, (), (0,), (1,), (2,), [[range(2), range(3), range(2)]]),
        Panels: lambda: Panels((0,), (1, 2), is_swapped=False, width=COLUMNS),
        Indexed: get_indexed,
    }
    return makers[kind]()


def get_indexed() -> Indexed:
    """Return the loops of a gather."""
    plan = plan_gather(GATHER)
    assert isinstance(plan, Gather)
    return plan._task._task


def _taken(form: Selection) -> dict[str, Any]:
    return {"taken": tuple(range(form.shape[-1] + 1))}


def _emptied(node: Node) -> Node:
    return replace(node, fold_shape=(0,))


BEYOND: dict[type[Form], dict[str, Callable[[Any], dict[str, Any]]]] = {
    Selection: {
        "count": _taken,
        "types": lambda f: {"operands": f.operands[::-1]},
        "whole": lambda f: {"shape": (0, *f.shape)},
        "earlier": lambda f: {
            "operands": (f.operands[0], replace(f.operands[1], reference=f.taken[0]))
        },
    },
    Sort: {
        "length": lambda _: {"sizes": (1, 1 << 31)},
        "types": lambda f: {"operands": f.operands[::-1]},
        "inside": lambda _: {"line": Strided(1, (20, 1))},
        "earlier": lambda f: {
            "operands": (f.operands[0], replace(f.operands[1], origin=Origin.NODE, reference=7))
        },
    },
    Vertical: {
        "operators": lambda f: {"nodes": f.nodes * 2},
        "view": lambda f: {"stack": f.stack._replace(reading=_Copied())},
        "elements": lambda f: {"stack": f.stack._replace(columns=7)},
    },
    VerticalFold: {
        "extents": lambda _: {"rows": 0},
        "lanes": lambda f: {"lanes": f.rows + 1},
        "functions": lambda _: {"function": Function.ARGMAX},
    },
    WindowFold: {
        "steps": lambda _: {"shifts": tuple(range(65))},
        "columns": lambda _: {"column_step": 0},
        "inner": lambda f: {"inner": (0, f.columns + 1)},
        "bounds": lambda _: {"bounds": (_Bound(),)},
    },
    Chain: {
        "steps": lambda _: {"products": (_emptied(PRODUCT),)},
        "extents": lambda _: {"output": replace(SUM, shape=(4, 17))},
        "start": lambda _: {"start_shape": (4, 15)},
        "types": lambda _: {"output": replace(SUM, dtype=DType.INT32)},
    },
    BackToBack: {
        "rows": lambda f: {"group": replace(f.group, columns=None)},
        "steps": lambda f: {"nodes": {i: _emptied(node) for i, node in f.nodes.items()}},
        "middle": lambda f: {"middle": f.first},
        "across": lambda f: {"across": ((f.first, f.first),) * 3},
    },
    Group: {
        "members": lambda f: {"members": f.members[::-1]},
        "cuts": lambda _: {"cuts": frozenset({2, 3})},
        "functions": lambda f: {
            "members": (
                replace(f.members[0], node=replace(f.members[0].node, function=Function.ARGMAX)),
            )
        },
    },
    Region: {
        "extents": lambda f: {"last_columns": f.columns + 1},
        "block": lambda _: {"block": 2, "is_wide": True},
        "order": lambda _: {"stores": ((2, 1),)},
        "gathered": lambda _: {"values": (LOAD, Gathered(F32, LOAD, (0,), (0,), (1,), 0))},
    },
    Addressed: {
        "inside": lambda f: {"strided": Strided(1, f.strided.strides)},
        "coordinates": lambda _: {
            "coordinates": (Coordinate(0, 5, -3),),
            "strided": Strided(12, (0, 1)),
        },
    },
    Tail: {
        "mask": lambda _: {"mask": replace(LOAD, column_stride=2)},
        "unit": lambda _: {"unit": 31},
    },
    Sliding: {
        "image": lambda _: {"image": 0},
        "roles": lambda _: {"rows": (1,)},
        "parts": lambda _: {"parts": []},
    },
    Panels: {
        "width": lambda _: {"width": COLUMNS - 1},
        "roles": lambda _: {"rows": (2,)},
    },
    Indexed: {
        "loops": lambda f: {"shared": len(f.sizes)},
        "strides": lambda f: {"near": (0, f.near[1][1:])},
        "types": lambda f: {"indices": tuple(replace(it, dtype=F32) for it in f.indices)},
    },
}
"""By form and precondition: the changes of a form that break it."""


class _Copied:
    is_view = False


class _Bound:
    shifts, column, rows = (0,), 0, ()


KERNELS: dict[str, tuple[type[Form], ...] | str] = {
    "largest": (Selection,),
    "sorting": (Sort,),
    "tails": (Tail,),
    "fused.vertical": (Vertical, VerticalFold),
    "fused.windows": (WindowFold,),
    "fused.indexed": (Indexed, Addressed),
    **dict.fromkeys(
        (
            *("fused.accumulators", "fused.ahead", "fused.columns", "fused.elements"),
            *("fused.frame", "fused.gathered", "fused.generate", "fused.leads", "fused.quotients"),
            *("fused.rows",),
        ),
        (Group, Region),
    ),
    "contraction.chains": (Chain,),
    "contraction.back_to_back": (BackToBack,),
    "contraction.blocks": (BackToBack,),
    "contraction.panels": (Panels,),
    **dict.fromkeys(
        (
            *("contraction.convolution", "contraction.convolution_lines"),
            *("contraction.convolution_packing", "contraction.convolution_records"),
            *("contraction.convolution_storing", "contraction.convolution_tables"),
        ),
        (Sliding,),
    ),
    **dict.fromkeys(
        (
            *("contraction.gemm", "contraction.packing", "contraction.strips"),
            *("contraction.tensor_blocks", "contraction.tensor_tile"),
            *("contraction.thin", "contraction.tile", "contraction.wide"),
            *("contraction.byte_rows", "contraction.integers"),
            *("contraction.tiles", "contraction.words"),
            *(
                "reduce",
                "row_sums",
                "norms",
                "magnitudes",
                "terms",
                "doubts",
                "bounded_sums",
                "integer_sums",
            ),
            *("exact_sums", "elementary", "copies", "turns"),
        ),
        "views",
    ),
    "scatter": "targets",
    "philox": "count",
}
"""By module of kernels: the forms that it computes, or what else says what it is given.

Views are made by `views.view`, inside of their buffers; targets are compared with the output where
they are used; a count is a shape's.
"""


def list_forms() -> list[type[Form]]:
    """Return all forms that there are, but for those of devices (`test_cuda_joined.py`)."""
    forms = {
        f"{form.__module__} {form.__name__}": form
        for form in Form.__subclasses__()
        if ".cuda." not in form.__module__
    }
    return [vars(sys.modules[form.__module__])[form.__name__] for form in forms.values()]


def list_kernels() -> Iterator[str]:
    """Yield the modules of kernels by their names in their room."""
    for module in pkgutil.walk_packages(kernels.__path__, kernels.__name__ + "."):
        if not module.ispkg:
            importlib.import_module(module.name)
            yield module.name.removeprefix(kernels.__name__ + ".")


def test_every_kernel_states_what_it_takes_for_granted() -> None:
    """Each module of kernels is of forms, each form has preconditions, each of these its trial."""
    assert set(list_kernels()) == set(KERNELS)
    named = {form for forms in KERNELS.values() if not isinstance(forms, str) for form in forms}
    assert named == set(list_forms()) == set(BEYOND)
    for form in list_forms():
        names = [precondition.name for precondition in form.preconditions]
        assert names, form
        assert len(set(names)) == len(names)
        assert set(names) == set(BEYOND[form]), form


def test_no_form_leaves_its_preconditions_out() -> None:
    """Every constructor looks at them."""
    assert all(form.__post_init__ is Form.__post_init__ for form in list_forms())


@pytest.mark.parametrize(
    ("form", "name"),
    [(form, name) for form, names in BEYOND.items() for name in names],
    ids=lambda it: it if isinstance(it, str) else it.__name__,
)
def test_what_breaks_a_precondition_cannot_be_made(form: type[Form], name: str) -> None:
    """A form that goes beyond one precondition is refused, and that one is named."""
    good = get_form(form)
    with pytest.raises(BrokenPrecondition) as found:
        replace(good, **BEYOND[form][name](good))
    assert (found.value.form, found.value.precondition) == (form.__name__, name)


def test_views_end_where_their_buffers_do() -> None:
    """No view of a buffer reaches beyond it, on either side."""
    buffer = np.zeros(12, np.float32)
    assert view(buffer, (3, 4), Strided(0, (4, 1))).shape == (3, 4)
    for strided in (Strided(1, (4, 1)), Strided(0, (5, 1)), Strided(0, (-4, 1))):
        with pytest.raises((ValueError, TypeError)):
            view(buffer, (3, 4), strided)


def test_kernels_assert_what_they_are_given() -> None:
    """A kernel that is called beyond its counts fails before it reads anything."""
    rows = np.zeros((2, 3), np.float32)
    for count in (0, 4):
        with pytest.raises(AssertionError):
            find_largest(rows, count)
    with pytest.raises(AssertionError):
        sort_lines(np.zeros((2, 0), np.uint32))


def test_a_watched_run_asserts_what_it_is_given_and_returns() -> None:
    """Arrays of another type or size, and kernels that write to their operands, are found out."""
    x = np.ones((4, 16), np.float32)
    good = watch(lambda flats, *_: [flats[0] + flats[1]], SUM.operands, [SUM])
    assert good([x, x], 0, None)[0].shape == (4, 16)
    for bad in (x[:3], x.astype(np.float64), x.T):
        with pytest.raises(AssertionError):
            good([x, bad], 0, None)
    with pytest.raises(AssertionError):
        watch(lambda *_: [x[:1]], SUM.operands, [SUM])([x, x], 0, None)
    with pytest.raises(AssertionError):
        watch(lambda *_: [np.negative(x, out=x)], SUM.operands, [SUM])([x, x], 0, None)


@pytest.mark.parametrize("part", range(4))
def test_rounds_of_any_number_are_what_they_are_defined_to_be(part: int) -> None:
    """More rounds than columns, rows of one column and none, counters that come late or are rounds.

    Each program is run for three steps from its state; its counter is one from the second on.
    """
    for number in range(10 * part, 10 * part + 10):
        rng = Random(number)
        program = draw_rounds_program(rng)
        state = draw_tensors(rng, program.state)
        set_counters(rng, program, state)
        executor, found = Executor(program), [array.copy() for array in state]
        for step in range(3):
            state = run_step(program, state, [], step)
            executor.advance(found, [], step)
            assert [a.tobytes() for a in found] == [a.tobytes() for a in state]
