"""Numbers of Python's in the step of a user's own optimizer, for which tensors stand.

A count of steps, or a rate that a step changes, is a tensor of no dimension in a program. While the
step is traced, such a tensor does what a number would: it is never changed in place, functions of
`math` and `max` and `min` take it, and so do operators of torch that ask for a number.
"""

import builtins
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from moot.offchain.frontend.optimizers.kept import list_functions

_SCALED = {
    "add": ("alpha", 1),
    "sub": ("alpha", 1),
    "addcmul": ("value", 1),
    "addcdiv": ("value", 1),
}
"""Name of a function -> its factor, and the number of the argument that it multiplies."""

_OF_SCALARS = ("addcmul", "addcdiv")
_FACTORS = 3
"""Functions of lists whose scalars follow the tensors, of which they have so many."""

_FOREACH = "_foreach_"


class Numbers(TorchFunctionMode):
    """Has tensors that stand for numbers do what numbers do.

    Args:
        numbers: the tensors that stand for numbers.
        is_traced: says whether a tensor has no elements that are known.
    """

    def __init__(self, numbers: Sequence[Tensor], is_traced: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self._numbers = {id(number): number for number in numbers}
        self._is_traced = is_traced

    def __torch_function__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name, options = getattr(func, "__name__", ""), dict(kwargs or {})
        tensors = [it for it in (*args, *options.values()) if isinstance(it, Tensor)]
        if name == "item" and self._is_traced(args[0]):
            return self.note(args[0].detach().clone().reshape(()))
        is_number = bool(tensors) and all(id(tensor) in self._numbers for tensor in tensors)
        if is_number and name.endswith("_") and not name.endswith("__"):
            func = getattr(Tensor, name.removesuffix("_"))  # `k += 1` makes another number
        else:
            args, options = _multiply(name, args, options)
        result = func(*args, **options)
        return self.note(result) if is_number and isinstance(result, Tensor) else result

    def note(self, number: Tensor) -> Tensor:
        """Return a tensor that stands for a number from now on."""
        self._numbers[id(number)] = number
        return number


def _of_lists(name: str) -> Callable[..., Any]:
    """Return torch's function of lists of a name, which takes tensors as numbers, too."""
    function, single = getattr(torch, name), name.removeprefix(_FOREACH)

    def call(*args: Any, **options: Any) -> Any:
        if not _has_numbers(args[1:], options):
            return function(*args, **options)
        results = []
        for index in range(len(args[0])):
            given = [it[index] if isinstance(it, (list, tuple)) else it for it in args]
            named = {k: v[index] if isinstance(v, (list, tuple)) else v for k, v in options.items()}
            if "scalars" in named or (single.rstrip("_") in _OF_SCALARS and len(given) > _FACTORS):
                named["value"] = named.pop("scalars") if "scalars" in named else given.pop()
            results.append(getattr(given[0], single)(*given[1:], **named))
        return results

    return call


def _has_numbers(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Return whether a function of lists is given tensors of no dimension."""
    given = [it for it in (*args, *options.values()) if it is not None]
    parts = [part for it in given for part in (it if isinstance(it, (list, tuple)) else [it])]
    return any(isinstance(part, Tensor) and not part.ndim for part in parts)


def _multiply(
    name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a function's arguments, a factor that is a tensor multiplied with what it scales."""
    name = name.rstrip("_")
    place = _SCALED.get(name)
    if name == "lerp":
        return _cast_weight(args, options), {k: v for k, v in options.items() if k != "weight"}
    if place is None:
        return args, options
    key, scaled = place
    most = 2 if key == "alpha" else 3
    if len(args) == most + 1:  # as torch has had it: the factor comes before what it scales
        options = {key: args[1], **options}
        args = (args[0], *args[2:])
    if isinstance(options.get(key), Tensor):
        factor = options.pop(key)
        args = tuple(arg * factor if k == scaled else arg for k, arg in enumerate(args))
    return args, options


def _cast_weight(args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of `lerp`, of whose type a weight has to be."""
    given = (*args, *(options[k] for k in ("end", "weight") if k in options))
    is_cast = len(given) == 3 and isinstance(given[2], Tensor) and not given[2].ndim
    return (*given[:2], given[2].to(given[0].dtype)) if is_cast else given


def _wrap(
    function: Callable[..., Any], of_tensors: Callable[..., Tensor], numbers: Numbers
) -> Callable[..., Any]:
    """Return a function of numbers that takes what stands for them, too."""

    def call(*args: Any, **options: Any) -> Any:
        given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if options or not any(isinstance(arg, Tensor) for arg in given):
            return function(*args, **options)
        return numbers.note(of_tensors(*given))

    return call


def _as_float(value: Any) -> Tensor:
    return torch.as_tensor(value).to(torch.float32)


def _of_floats(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *args: function(*map(_as_float, args))


def _fold(chosen: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def fold(*args: Any) -> Tensor:
        first, *others = args
        found = torch.as_tensor(first)
        for other in others:
            found = chosen(found, torch.as_tensor(other))
        return found

    return fold


_MATH = {
    **{name: _of_floats(getattr(torch, name)) for name in ("sqrt", "exp", "log", "log2", "log10")},
    **{name: _of_floats(getattr(torch, name)) for name in ("cos", "sin", "tanh", "pow", "log1p")},
    **{name: _of_floats(getattr(torch, name)) for name in ("expm1", "atan", "sinh", "cosh", "tan")},
    "fabs": _of_floats(torch.abs),
    "floor": lambda x: torch.floor(x).long(),
    "ceil": lambda x: torch.ceil(x).long(),
    "isnan": torch.isnan,
}
"""Functions of `math` on tensors."""

_CHOICES = {"max": _fold(torch.maximum), "min": _fold(torch.minimum)}
"""Functions of Python that compare numbers, on tensors."""


@contextmanager
def computing_with_tensors(
    optimizers: Sequence[torch.optim.Optimizer], numbers: Numbers
) -> Iterator[None]:
    """Have the code of optimizers call functions of numbers on what stands for numbers, too."""
    of_math = {
        getattr(math, name): _wrap(getattr(math, name), it, numbers) for name, it in _MATH.items()
    }
    chosen = {name: _wrap(getattr(builtins, name), it, numbers) for name, it in _CHOICES.items()}
    with ExitStack() as changes, numbers:
        for function, wrapped in of_math.items():
            changes.enter_context(_changed(vars(math), {function.__name__: wrapped}))
        lists = {name: _of_lists(name) for name in vars(torch) if name.startswith(_FOREACH)}
        changes.enter_context(_changed(vars(torch), lists))
        for variables in _list_globals(optimizers):
            own = {k: of_math[v] for k, v in variables.items() if _is_of_math(v) and v in of_math}
            others = {k: v for k, v in chosen.items() if k not in variables}
            changes.enter_context(_changed(variables, {**own, **others}))
        yield


@contextmanager
def _changed(variables: dict[str, Any], others: Mapping[str, Any]) -> Iterator[None]:
    """Have some global variables be others."""
    before = {name: variables[name] for name in others if name in variables}
    variables.update(others)
    try:
        yield
    finally:
        for name in others:
            variables.pop(name, None)
        variables.update(before)


def _is_of_math(value: Any) -> bool:
    return isinstance(value, BuiltinFunctionType) and value.__module__ == math.__name__


def _list_globals(optimizers: Sequence[torch.optim.Optimizer]) -> list[dict[str, Any]]:
    """Return the global variables of the code of optimizers, but for torch's."""
    found = [it.__globals__ for optimizer in optimizers for it in list_functions(optimizer)]
    return list({id(variables): variables for variables in found}.values())
