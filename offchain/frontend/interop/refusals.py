"""Refusals: what a `transformers.Trainer` may do in a step that no recipe can say, by name."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.text import clean, name_kind

SUBJECT = "the Trainer"

_METHODS = (
    *("train", "training_step", "compute_loss", "compute_loss_context_manager"),
    *("autocast_smart_context_manager", "get_batch_samples", "_get_num_items_in_batch"),
    *("_prepare_inputs", "_prepare_input", "_inner_training_loop", "_run_epoch"),
    *("_prepare_for_training", "_wrap_model", "_clip_grad_norm", "create_optimizer_and_scheduler"),
)
"""Methods that are a step; a Trainer that has its own does something else in it."""

_EVENTS = (
    *("on_train_begin", "on_epoch_begin", "on_step_begin", "on_substep_end", "on_step_end"),
    *("on_pre_optimizer_step", "on_optimizer_step", "on_epoch_end"),
)
"""Events at which a callback may change a step: it has the model and the optimizer in its hands."""

_HARMLESS = "transformers."
"""What the modules of callbacks begin with that only show, save, stop and report."""


class _Argument(NamedTuple):
    """An argument of a Trainer that changes its steps.

    Attributes:
        neutral: its values that change nothing.
        advice: what to do instead.
    """

    neutral: Collection[Any]
    advice: str


_OFF = (None, False, "", 0)
_LEAVE = "leave it out"
_ONE_MACHINE = "leave it out, and train on one processor"

_ARGUMENTS: Mapping[str, _Argument] = MappingProxyType(
    {
        "fp16": _Argument(_OFF, "leave it out: no program has float16"),
        "bf16": _Argument(_OFF, 'leave it out, and choose set_precision(recipe, "bf16")'),
        "label_smoothing_factor": _Argument(_OFF, "give the smoothed loss as compute_loss_func"),
        "neftune_noise_alpha": _Argument(_OFF, _LEAVE),
        "use_liger_kernel": _Argument(_OFF, _LEAVE),
        "torch_compile": _Argument(_OFF, _LEAVE),
        "auto_find_batch_size": _Argument(_OFF, "choose per_device_train_batch_size"),
        "deepspeed": _Argument(_OFF, _ONE_MACHINE),
        "fsdp": _Argument((*_OFF, [], "[]"), _ONE_MACHINE),
        "parallelism_config": _Argument(_OFF, _ONE_MACHINE),
        "world_size": _Argument((1,), _ONE_MACHINE),
        "resume_from_checkpoint": _Argument(_OFF, "load the checkpoint into the model instead"),
    }
)
"""Arguments that change a step."""

_CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "lr_scheduler_type": {
            "reduce_lr_on_plateau": "choose a schedule that needs no evaluation",
            "greedy": "choose a schedule that needs no evaluation",
        },
        "optim": {"lomo": "choose adamw_torch", "adalomo": "choose adamw_torch"},
        "train_sampling_strategy": {
            "group_by_length": "choose random or sequential",
            "batch_rebalance": "choose random or sequential",
        },
    }
)
"""Values of arguments that a recipe has no words for, and what to do instead."""


def check_trainer(trainer: Any) -> None:
    """Refuse a Trainer that does something in a step that no recipe can say.

    Raises:
        CannotTranslate: it does.
        UsageError: it is no Trainer.
    """
    from transformers import Trainer  # noqa: PLC0415 - heavy and optional

    if not isinstance(trainer, Trainer):
        raise UsageError(f"the trainer is {name_kind(trainer)}; give a transformers.Trainer")
    _check_methods(trainer, Trainer)
    _check_arguments(trainer.args)
    for callback in trainer.callback_handler.callbacks:
        _check_callback(callback)
    if trainer.args.device.type != "cpu":
        raise CannotTranslate(
            SUBJECT, f"its model is on {trainer.args.device}", "give it use_cpu=True"
        )
    if trainer.train_dataset is None:
        raise CannotTranslate(SUBJECT, "it has no train_dataset", "give it one")


def _check_methods(trainer: Any, base: type) -> None:
    for name in _METHODS:
        theirs = getattr(base, name, None)
        is_own = name in vars(trainer) or getattr(type(trainer), name, None) is not theirs
        if theirs is not None and is_own:
            raise CannotTranslate(
                f"the Trainer {type(trainer).__name__}",
                f"its {name} is its own, and a recipe would not do what it does",
                "give what it computes as compute_loss_func, or write a TrainingRecipe",
            )


def _check_arguments(args: Any) -> None:
    for name, argument in _ARGUMENTS.items():
        value = getattr(args, name, None)
        is_neutral = any(value == it for it in argument.neutral)
        if not is_neutral and value is not None:
            raise _refuse(name, value, argument.advice)
    for name, choices in _CHOICES.items():
        value = getattr(args, name, None)
        chosen = str(getattr(value, "value", value))  # of an enumeration
        if chosen in choices:
            raise _refuse(name, chosen, choices[chosen])
    config = getattr(args, "accelerator_config", None)
    if not getattr(config, "use_seedable_sampler", True):
        raise _refuse("use_seedable_sampler", value=False, advice=_LEAVE)


def _refuse(name: str, value: object, advice: str) -> CannotTranslate:
    return CannotTranslate(SUBJECT, f"{name}={clean(repr(value), 40)} changes its steps", advice)


def _check_callback(callback: Any) -> None:
    """Refuse a callback that acts where a step may be changed."""
    kind = type(callback)
    if kind.__module__.startswith(_HARMLESS):
        return
    from transformers import TrainerCallback  # noqa: PLC0415 - heavy and optional

    for event in _EVENTS:
        theirs = getattr(TrainerCallback, event, None)
        if getattr(kind, event, theirs) is not theirs or event in vars(callback):
            raise CannotTranslate(
                SUBJECT,
                f"its callback {kind.__name__} acts in {event}, where it may change the step",
                f"leave it out: trainer.remove_callback({kind.__name__})",
            )
