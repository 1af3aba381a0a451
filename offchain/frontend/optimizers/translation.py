"""The translation of torch's optimizer objects to Moot's optimizers, by class and by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from offchain.errors import UsageError
from offchain.frontend.optimizers.adafactor import Adafactor
from offchain.frontend.optimizers.adam import Adam, AdamW
from offchain.frontend.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    Tensors,
    Updated,
    everything,
)
from offchain.frontend.optimizers.descent import SGD
from offchain.frontend.optimizers.lion import Lion
from offchain.frontend.optimizers.muon import Muon
from offchain.frontend.optimizers.resilient import ASGD, Rprop
from offchain.frontend.optimizers.squares import Adadelta, Adagrad, RMSprop
from offchain.frontend.optimizers.variants import Adamax, NAdam, RAdam

Options = Mapping[str, Any]

IMPLEMENTATION = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
"""Options that choose among torch's kernels and change no number."""

SCHEDULED = "initial_lr"
"""The option that a scheduler of torch leaves in a group."""

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
        self.read = {"maximize", *IMPLEMENTATION}

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


def _lion(get: _Reader) -> Optimizer:
    beta1, beta2 = get("betas")
    return Lion(get("lr"), beta1, beta2, get("weight_decay", 0.0))


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


TRANSLATIONS: Mapping[str, Callable[[_Reader], Optimizer]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "AdamW": lambda get: _adam(get, is_decoupled=True),
    "NAdam": _nadam,
    "RAdam": _radam,
    "Adamax": _adamax,
    "RMSprop": _rmsprop,
    "Adagrad": _adagrad,
    "Adadelta": _adadelta,
    "Adafactor": _adafactor,
    "Rprop": _rprop,
    "ASGD": _asgd,
    "Lion": _lion,
    "Muon": _muon,
}
"""Name of a class -> what makes our optimizer of a group's options."""


def translate(optimizer: torch.optim.Optimizer, model: nn.Module) -> Sequence[Group]:
    """Return groups that update a model's parameters as an optimizer of torch would.

    Parameters that the optimizer was not given stay as they are.

    Raises:
        UsageError: the class or an option has no translation, the optimizer has made steps or has
            hooks or a scheduler, or its parameters are not the model's.
    """
    name = type(optimizer).__name__
    if name not in TRANSLATIONS:
        known = ", ".join(TRANSLATIONS)
        raise UsageError(f"{name}: no translation of this optimizer; choose {known}")
    if any(state.get("step", 0) for state in optimizer.state.values()):
        raise UsageError(f"{name}: the optimizer has made steps already; give a new one")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:  # noqa: SLF001 - not public
        raise UsageError(f"{name}: hooks of an optimizer's steps are not captured; remove them")
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    learned = {id(p) for p in model.parameters() if p.requires_grad}
    groups = []
    for options in optimizer.param_groups:
        strangers = [p for p in options["params"] if id(p) not in names]
        if strangers:
            shape = tuple(strangers[0].shape)
            raise UsageError(f"{name}: a parameter of shape {shape} is none of the model's")
        members = frozenset(names[id(p)] for p in options["params"])
        learned -= {id(p) for p in options["params"]}
        groups.append(Group(members.__contains__, _translate_group(name, options)))
    return (*groups, Group(everything, Rest())) if learned else tuple(groups)


def _translate_group(name: str, options: Options) -> Optimizer:
    if SCHEDULED in options:
        raise UsageError(
            f"{name}: a scheduler of torch changes its rate outside of the step; give the recipe "
            f"one of ours with a schedule, such as AdamW(CosineDecay(peak=1e-3, total=1000))"
        )
    reader = _Reader(options)
    try:
        optimizer = TRANSLATIONS[name](reader)
    except (TypeError, KeyError) as error:
        raise UsageError(f"{name}: its options are not those of torch's {name}: {error}") from error
    unknown = [key for key in options if key not in reader.read and options[key]]
    if unknown:
        raise UsageError(f"{name}: the option {unknown[0]} has no translation; leave it out")
    return Ascent(optimizer) if options.get("maximize") else optimizer
