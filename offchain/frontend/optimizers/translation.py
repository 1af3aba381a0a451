"""The translation of torch's optimizer objects to Moot's optimizers, by class and by group.

A class is recognised by its identity, with the methods that torch has given it; what has the name
of one of torch's classes is another class.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, optim
from torch.optim import optimizer as of_all

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.adafactor import Adafactor
from moot.offchain.frontend.optimizers.adam import Adam, AdamW
from moot.offchain.frontend.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    Tensors,
    Updated,
    everything,
)
from moot.offchain.frontend.optimizers.descent import SGD
from moot.offchain.frontend.optimizers.muon import Muon
from moot.offchain.frontend.optimizers.resilient import ASGD, Rprop
from moot.offchain.frontend.optimizers.squares import Adadelta, Adagrad, RMSprop
from moot.offchain.frontend.optimizers.timetables import NONE, SCHEDULED, Timetables
from moot.offchain.frontend.optimizers.variants import Adamax, NAdam, RAdam
from moot.offchain.frontend.subject import Subject

Options = Mapping[str, Any]

IMPLEMENTATION = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
"""Options that choose among torch's kernels and change no number."""

OF_SCHEDULERS = frozenset(
    {SCHEDULED, "swa_lr", *(f"{most}_{of}" for most in ("max", "min") for of in ("lr", "momentum"))}
    | {"base_momentum"}
)
"""Options that schedulers of torch keep in groups, and optimizers do not read."""

FLOAT32_EPSILON = 2.0**-23
"""What torch's Adafactor takes for an epsilon of None."""


@dataclass(frozen=True, slots=True)
class Ascent:
    """An optimizer that climbs: `maximize` of torch's optimizers."""

    optimizer: Optimizer

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the optimizer's own."""
        return self.optimizer.make_moments(parameter)

    def make_counters(self) -> Tensors:
        """Return the optimizer's own."""
        return self.optimizer.make_counters()

    def advance(self, counters: Tensors) -> Numbers:
        """Return the optimizer's own."""
        return self.optimizer.advance(counters)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after a step against the gradient's direction."""
        return self.optimizer.update(parameter, -gradient, moments, numbers)


class Rest:
    """The optimizer of parameters that torch's optimizer was not given, which leaves them alone."""

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return nothing."""
        del parameter
        return {}

    def make_counters(self) -> Tensors:
        """Return nothing."""
        return {}

    def advance(self, counters: Tensors) -> Numbers:
        """Return nothing."""
        return dict(counters)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter as it is."""
        del gradient, moments, numbers
        return parameter, {}


class _Reader:
    """A group's options, which remembers the ones that were read."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.read = {"maximize", *IMPLEMENTATION, *OF_SCHEDULERS}

    def __call__(self, name: str, default: Any = None) -> Any:
        """Return an option, a tensor of one element as a number."""
        self.read.add(name)
        value = self._options.get(name, default)
        return value.item() if isinstance(value, Tensor) else value


def _share(get: _Reader) -> tuple[float, float, float, float, float]:
    """Return what Adam and its relatives have in common."""
    beta1, beta2 = get("betas")
    return get("lr"), beta1, beta2, get("eps"), get("weight_decay")


def _sgd(get: _Reader) -> Optimizer:
    return SGD(get("lr"), get("momentum"), get("weight_decay"), get("nesterov"), get("dampening"))


def _adam(get: _Reader, *, is_decoupled: bool = False) -> Optimizer:
    make = AdamW if get("decoupled_weight_decay", is_decoupled) else Adam
    return make(*_share(get), amsgrad=get("amsgrad", default=False))


def _nadam(get: _Reader) -> Optimizer:
    is_decoupled = get("decoupled_weight_decay", default=False)
    return NAdam(*_share(get), get("momentum_decay"), is_decoupled)


def _radam(get: _Reader) -> Optimizer:
    return RAdam(*_share(get), get("decoupled_weight_decay", default=False))


def _adamax(get: _Reader) -> Optimizer:
    return Adamax(*_share(get))


def _rmsprop(get: _Reader) -> Optimizer:
    options = [get(n) for n in ("lr", "alpha", "eps", "weight_decay", "momentum", "centered")]
    return RMSprop(*options)


def _adagrad(get: _Reader) -> Optimizer:
    names = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    return Adagrad(*(get(name) for name in names))


def _adadelta(get: _Reader) -> Optimizer:
    return Adadelta(*(get(name) for name in ("lr", "rho", "eps", "weight_decay")))


def _adafactor(get: _Reader) -> Optimizer:
    first, second = get("eps")
    epsilon = (FLOAT32_EPSILON if first is None else first, second)
    return Adafactor(get("lr"), -get("beta2_decay"), epsilon, get("d"), get("weight_decay"))


def _rprop(get: _Reader) -> Optimizer:
    return Rprop(get("lr"), *get("etas"), *get("step_sizes"))


def _asgd(get: _Reader) -> Optimizer:
    return ASGD(*(get(name) for name in ("lr", "lambd", "alpha", "t0", "weight_decay")))


def _muon(get: _Reader) -> Optimizer:
    return Muon(
        get("lr"),
        get("weight_decay"),
        get("momentum"),
        get("nesterov"),
        get("ns_coefficients"),
        get("eps"),
        get("ns_steps"),
        get("adjust_lr_fn") or "original",
    )


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of a class of torch.

    Attributes:
        make: makes our optimizer of a group's options.
        moments: name of a moment of ours -> the key of what torch keeps for a parameter.
        varying: options that may change from update to update.
        decides: whether torch's step decides by the number of steps, so that it can't be traced.
    """

    make: Callable[[_Reader], Optimizer]
    moments: Mapping[str, str]
    varying: frozenset[str] = frozenset({"lr"})
    decides: bool = False


_ADAM = {
    "first_moment": "exp_avg",
    "second_moment": "exp_avg_sq",
    "largest_moment": "max_exp_avg_sq",
}

_OF_ADAM = frozenset({"lr", "betas"})

TRANSLATIONS: Mapping[type[torch.optim.Optimizer], Translation] = {
    optim.SGD: Translation(_sgd, {"momentum": "momentum_buffer"}, frozenset({"lr", "momentum"})),
    optim.Adam: Translation(_adam, _ADAM, _OF_ADAM),
    optim.AdamW: Translation(lambda get: _adam(get, is_decoupled=True), _ADAM, _OF_ADAM),
    optim.NAdam: Translation(_nadam, _ADAM, _OF_ADAM),
    optim.RAdam: Translation(_radam, _ADAM, _OF_ADAM, decides=True),
    optim.Adamax: Translation(_adamax, {"first_moment": "exp_avg", "largest": "exp_inf"}, _OF_ADAM),
    optim.RMSprop: Translation(
        _rmsprop, {"square": "square_avg", "mean": "grad_avg", "momentum": "momentum_buffer"}
    ),
    optim.Adagrad: Translation(_adagrad, {"sum": "sum"}),
    optim.Adadelta: Translation(_adadelta, {"square": "square_avg", "step_square": "acc_delta"}),
    optim.Adafactor: Translation(
        _adafactor,
        {"rows": "row_var", "columns": "col_var", "second_moment": "variance"},
        decides=True,
    ),
    optim.Rprop: Translation(_rprop, {"before": "prev", "step": "step_size"}, frozenset()),
    optim.ASGD: Translation(_asgd, {"average": "ax"}, frozenset(), decides=True),
    optim.Muon: Translation(_muon, {"momentum": "momentum_buffer"}),
}
"""Class of torch -> its translation."""

_CONTINUED: WeakSet[torch.optim.Optimizer] = WeakSet()
"""Optimizers that had made steps when they were last captured."""

_OF_TORCH = Path(torch.__file__).parent
_DEPRECATION = "typing_extensions"
"""What torch marks its deprecated methods with."""


def is_recognised(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether an object is of one of torch's classes, new, and steps as torch wrote it."""
    if type(optimizer) not in TRANSLATIONS or optimizer in _CONTINUED or _has_hooks(optimizer):
        return False
    own = any(callable(it) and not _is_tracked(it) for it in vars(optimizer).values())
    methods = (value for kind in type(optimizer).__mro__[:-1] for value in vars(kind).values())
    return not own and all(_is_of_torch(it) for it in methods if inspect.isfunction(it))


def _is_tracked(step: Any) -> bool:
    """Return whether a step is torch's own, by which a scheduler sees whether it is called."""
    return hasattr(step, "_wrapped_by_lr_sched") and _is_of_torch(step)


def _has_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether anything else runs with an optimizer's steps."""
    own = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)  # noqa: SLF001 - not public
    shared = (of_all._global_optimizer_pre_hooks, of_all._global_optimizer_post_hooks)  # noqa: SLF001 - likewise
    return any((*own, *shared))


def _is_of_torch(function: Any) -> bool:
    """Return whether torch has written a function, and all that it is wrapped in."""
    while inspect.isfunction(function):
        path = Path(function.__code__.co_filename)
        if _OF_TORCH not in path.parents and path.stem != _DEPRECATION:
            return False
        function = getattr(function, "__wrapped__", None)
    return True


def check_objects(
    given: Sequence[torch.optim.Optimizer], subject: Subject, *, is_scheduled: bool
) -> None:
    """Refuse optimizers of torch that an unknown scheduler drives, or with the wrong parameters.

    Raises:
        UsageError: one has a scheduler or a parameter that is not the model's, or two have one.
    """
    names = subject.owners
    seen: set[int] = set()
    for optimizer in given:
        name = type(optimizer).__name__
        for options in optimizer.param_groups:
            if SCHEDULED in options and not is_scheduled:
                raise UsageError(
                    f"{name}: a scheduler of torch changes its rate outside of the step; give it "
                    "to the recipe, too, as its `scheduler`"
                )
            for parameter in options["params"]:
                if id(parameter) not in names:
                    shape = tuple(parameter.shape)
                    raise UsageError(f"{name}: a parameter of shape {shape} is none of the model's")
                if id(parameter) in seen:
                    twice = names[id(parameter)]
                    raise UsageError(f"two optimizers have the parameter {twice}; give it to one")
                seen.add(id(parameter))


def translate(
    given: Sequence[torch.optim.Optimizer], subject: Subject, timetables: Timetables = NONE
) -> Sequence[Group]:
    """Return groups that update a model's parameters as recognised optimizers of torch would.

    Parameters that no optimizer was given stay as they are.

    Raises:
        UsageError: an option has no translation.
    """
    names = subject.owners
    learned = {id(p) for p in subject.parameters.values() if p.requires_grad}
    groups: list[Group] = []
    for optimizer in given:
        kind = type(optimizer)
        changes = timetables.changes.get(id(optimizer), [{}] * len(optimizer.param_groups))
        for options, changed in zip(optimizer.param_groups, changes, strict=True):
            members = frozenset(names[id(p)] for p in options["params"])
            learned -= {id(p) for p in options["params"]}
            _check_changes(kind, changed)
            groups.append(
                Group(members.__contains__, _translate_group(kind, {**options, **changed}))
            )
    return (*groups, Group(everything, Rest())) if learned else tuple(groups)


def _check_changes(kind: type[torch.optim.Optimizer], changed: Options) -> None:
    """Refuse schedulers (`UsageError`) that change more than a translation can follow."""
    for option, value in changed.items():
        is_first = not isinstance(value, tuple) or isinstance(value[-1], float)  # of the betas
        if option not in TRANSLATIONS[kind].varying or not is_first:
            advice = "; set cycle_momentum=False" if option in ("momentum", "betas") else ""
            said = f"a scheduler changes its {option}, which has no translation"
            raise UsageError(f"{kind.__name__}: {said}{advice}")


def mark_continued(optimizer: torch.optim.Optimizer) -> None:
    """Note whether an optimizer has made steps, from which a translation could not begin.

    It is no longer recognised then, but traced as it is, from what it keeps.

    Raises:
        UsageError: it has, and can't be traced.
    """
    _CONTINUED.discard(optimizer)
    translation = TRANSLATIONS.get(type(optimizer))
    # Some classes keep zeros from the beginning, a count of steps among them.
    if translation and any(float(it.get("step", 1)) for it in optimizer.state.values()):
        if translation.decides and is_recognised(optimizer):
            name = type(optimizer).__name__
            raise UsageError(f"{name}: the optimizer has made steps already; give a new one")
        _CONTINUED.add(optimizer)


def _translate_group(kind: type[torch.optim.Optimizer], options: Options) -> Optimizer:
    name, reader = kind.__name__, _Reader(options)
    try:
        optimizer = TRANSLATIONS[kind].make(reader)
    except (TypeError, KeyError) as error:
        raise UsageError(f"{name}: its options are not those of torch's {name}: {error}") from error
    unknown = [key for key in options if key not in reader.read and options[key]]
    if unknown:
        raise UsageError(f"{name}: the option {unknown[0]} has no translation; leave it out")
    return Ascent(optimizer) if options.get("maximize") else optimizer


def read_moments(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, Tensor]:
    """Return what an optimizer of torch keeps for a parameter, under the names of our moments."""
    kept = optimizer.state.get(parameter, {})
    keys = TRANSLATIONS[type(optimizer)].moments
    return {name: kept[key] for name, key in keys.items() if isinstance(kept.get(key), Tensor)}
