"""One step of a recipe in ordinary torch: the user's module, its autograd, tensors that change."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.calls import call, compute_loss, list_outputs
from moot.offchain.frontend.capture.stepping import Step, step_as_program
from moot.offchain.frontend.draws import Draws, get_generator_state, is_random
from moot.offchain.frontend.recipe import (
    InferenceRecipe,
    Recipe,
    TrainingRecipe,
    count_batches,
)
from moot.offchain.frontend.subject import Subject

Tensors = Mapping[str, torch.Tensor]

Drawn = Mapping[int, torch.Tensor]
"""The results of a random operator, by their number."""


RESEEDED = (
    "the step sets the state of torch's generator, so that torch draws the same numbers in every "
    "step, and the program others; draw them once, into a buffer"
)


class Prompter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Gives random operators the results that a program has for them.

    Args:
        drawn: the results, by the number of the draw.
        seen: states of torch's generator before the draws of earlier steps; those of this step
            are added.

    Raises:
        CaptureError: a draw repeats one of an earlier step, as the program's draws never do.
    """

    supports_higher_order_operators = True

    def __init__(self, drawn: Mapping[int, Drawn], seen: set[bytes]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._drawn, self._earlier, self._seen = drawn, frozenset(seen), seen
        self._draws = Draws()

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not is_random(func, args):
            return func(*args, **(kwargs or {}))
        before = get_generator_state()
        result = func(*args, **(kwargs or {}))
        if before == get_generator_state():
            return result  # attention without dropout, for one
        if before in self._earlier:
            raise CaptureError(f"{func}: {RESEEDED}", operator=str(func))
        self._seen.add(before)
        drawn = self._drawn.get(self._draws.find(before))
        return prompt(func, args, result, drawn) if drawn else result


def prompt(func: Any, args: tuple[Any, ...], result: Any, drawn: Drawn) -> Any:
    """Return the result of a random operator, with what was drawn in place of its own draw."""
    if func is torch.ops.aten.native_dropout.default:
        return args[0] * drawn[1] * (1 / (1 - args[1])), drawn[1]
    value = drawn[max(drawn)]
    if value.shape != result.shape:
        raise CaptureError(
            f"{func}: torch draws {tuple(result.shape)} here, "
            f"but the program {tuple(value.shape)}; compose it of rand, randn or bernoulli",
            operator=str(func),
        )
    return result.copy_(value)


def warm_up(recipe: Recipe, batch: Sequence[torch.Tensor]) -> None:
    """Call a recipe's function once, so that what code caches of tensors is of ordinary ones.

    A tensor that is made for the first time while a step is traced is no tensor afterwards.
    """
    size = len(batch) // count_batches(recipe)
    with torch.set_grad_enabled(isinstance(recipe, TrainingRecipe)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are heard when the step is traced
        call(recipe, [tensor.clone() for tensor in batch[:size]])


class EagerRun:
    """A run of a recipe's model by eager torch, from the model's present state.

    The model's code may put other tensors in its buffers' places, so the run looks at the model
    again after each call of it; in between, it keeps to the tensors that it has seen.

    Args:
        subject: the recipe's, whose model changes.
        state: the state's tensors by name; those of the optimizer are kept here.
        step: makes the updates; as the program does, if it is not given.

    Attributes:
        is_updating: whether the present step has come to its updates.
    """

    def __init__(self, subject: Subject, state: Tensors, step: Step = step_as_program) -> None:
        self._subject, self._recipe, self._step = subject, subject.recipe, step
        self.is_updating = False
        self._seen: set[bytes] = set()
        self._optimizer = {k: v for k, v in state.items() if k.startswith("optimizer.")}

    def get_state(self) -> dict[str, torch.Tensor]:
        """Return copies of the state's tensors by name, in order."""
        state = self._subject.tensors | self._optimizer
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def put_back(self, state: Tensors) -> None:
        """Have the model's tensors be as they were in a state."""
        with torch.no_grad():
            for name, tensor in self._subject.tensors.items():
                tensor.copy_(state[name])

    def move_weights(self, generator: torch.Generator, least: float, most: float) -> None:
        """Scale every number of the model's parameters and buffers by 1 + least to 1 + most."""
        if least == most == 0:
            return
        with torch.no_grad():
            for tensor in self._subject.tensors.values():
                if tensor.is_floating_point():
                    draws = torch.rand(tensor.shape, generator=generator)
                    tensor.mul_(1 + least + (most - least) * draws)

    def step(
        self, batch: Sequence[torch.Tensor], drawn: Mapping[int, Drawn]
    ) -> dict[str, torch.Tensor]:
        """Run one step, and return the new state, the outputs and the gradients by name."""
        results = self.advance(batch, drawn)
        return self.get_state() | results

    def advance(
        self, batch: Sequence[torch.Tensor], drawn: Mapping[int, Drawn]
    ) -> dict[str, torch.Tensor]:
        """Run one step, and return the outputs and the gradients by name."""
        new, results = self.compute(batch, drawn)
        self.update(new)
        return results

    def compute(
        self, batch: Sequence[torch.Tensor], drawn: Mapping[int, Drawn]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return what a step makes of parameters and the optimizer's state, and its results.

        Of the run's own state only the buffers change, as the model has them do.
        """
        copies = [tensor.clone() for tensor in batch]  # which the model may write to
        seen = set(self._seen)
        try:
            with Prompter(drawn, self._seen):
                if isinstance(self._recipe, InferenceRecipe):
                    return {}, self._infer(self._recipe, copies)
                return self._learn(self._recipe, copies)
        except Exception:
            self._seen = seen  # the step may be tried again
            raise

    def repeat(
        self,
        state: Tensors,
        batch: Sequence[torch.Tensor],
        drawn: Mapping[int, Drawn],
        mode: TorchDispatchMode,
    ) -> dict[str, torch.Tensor]:
        """Run a step again from a state, in a mode, but for the updates.

        Returns:
            The outputs, the gradients and the buffers by name.
        """
        self.put_back(state)
        copies = [tensor.clone() for tensor in batch]
        with Prompter(drawn, self._seen), mode:
            if isinstance(self._recipe, InferenceRecipe):
                results = self._infer(self._recipe, copies)
            else:
                loss, gradients = self._differentiate(self._recipe, copies)
                results = {"output.loss": loss, **_name_gradients(gradients)}
        return self.get_state() | results

    def update(self, new: Tensors) -> None:
        """Take over what a step has made of parameters and the optimizer's state."""
        with torch.no_grad():
            for name, parameter in self._subject.parameters.items():
                if f"parameter.{name}" in new:
                    parameter.copy_(new[f"parameter.{name}"])
        self._optimizer |= {k: new[k].clone() for k in self._optimizer if k in new}

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Look at the model again after it was called within, even if it has failed."""
        try:
            yield
        finally:
            self._subject = self._subject.look_again()

    def _infer(
        self, recipe: InferenceRecipe, batch: Sequence[torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        with self._calling(), torch.no_grad():
            outputs = list_outputs(call(recipe, batch))
        return {f"output.{k}": tensor.clone() for k, tensor in enumerate(outputs)}

    def _learn(
        self, recipe: TrainingRecipe, batch: Sequence[torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        self.is_updating = False
        loss, gradients = self._differentiate(recipe, batch)
        self.is_updating = True
        with torch.no_grad():
            state = self._subject.tensors | self._optimizer
            new = self._step(self._subject, state, gradients)
        return new, {"output.loss": loss, **_name_gradients(gradients)}

    def _differentiate(
        self, recipe: TrainingRecipe, batch: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the mean loss of a step's batches, and the mean gradients by parameter."""
        count = count_batches(recipe)
        size = len(batch) // count
        losses = []
        for parameter in self._subject.parameters.values():
            parameter.grad = None
        with self._calling(), torch.enable_grad():
            for number in range(count):
                loss = compute_loss(recipe, batch[number * size : (number + 1) * size])
                loss.backward()
                losses.append(loss.detach())
        gradients = {
            name: parameter.grad.to_dense() / count  # it is sparse where `sparse=True` says so
            for name, parameter in self._subject.parameters.items()
            if parameter.grad is not None
        }
        return torch.stack(losses).mean(), gradients


def _name_gradients(gradients: Tensors) -> dict[str, torch.Tensor]:
    """Return gradients by the names of results."""
    return {f"gradient.{name}": tensor for name, tensor in gradients.items()}
