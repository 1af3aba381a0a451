"""Operators besides products and convolutions, with the shapes of language models."""

from collections.abc import Iterator

import torch
from torch.nn import functional

from moot.bench.shapes import TINY_OPERATORS, OperatorSizes
from moot.bench.sides import Comparison, Function, Tensors, draw, make_ours
from moot.bench.timing import Side
from moot.offchain.frontend.optimizers import AdamW

GROUP = "other"

_RATE = 1e-3


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the operators, one by one."""
    sizes = TINY_OPERATORS if is_tiny else OperatorSizes()
    generator = torch.Generator().manual_seed(0)
    for make in (_softmax, _layer_norm, _gelu, _optimizer, _embedding, _cross_entropy):
        yield from make(sizes, generator)


def _compare(name: str, function: Function, tensors: Tensors) -> Comparison:
    return _against(name, function, tensors, lambda: function(*tensors))


def _against(name: str, function: Function, tensors: Tensors, stock: Side) -> Comparison:
    shape = " x ".join(map(str, tensors[0].shape))
    return Comparison(GROUP, name, shape, make_ours(function, tensors), stock)


def _softmax(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x, gradient = draw(generator, *sizes.scores), draw(generator, *sizes.scores)
    result = torch.softmax(x, -1)
    yield _compare("softmax forward", lambda x: torch.softmax(x, -1), (x,))
    backward = torch.ops.aten._softmax_backward_data  # noqa: SLF001 - what autograd calls
    yield _compare(
        "softmax backward", lambda g, y: backward(g, y, -1, torch.float32), (gradient, result)
    )


def _layer_norm(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    width = [sizes.width]
    x, gradient = (draw(generator, sizes.rows, sizes.width) for _ in range(2))
    weight, bias = draw(generator, sizes.width), draw(generator, sizes.width)
    norm = torch.ops.aten.native_layer_norm
    _, mean, deviation = norm(x, width, weight, bias, 1e-5)

    def backward(g: torch.Tensor, *saved: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, mean, deviation, weight, bias = saved
        found: tuple[torch.Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
            g, x, width, mean, deviation, weight, bias, [True, True, True]
        )
        return found

    yield _compare(
        "layer norm forward", lambda *t: norm(t[0], width, *t[1:], 1e-5), (x, weight, bias)
    )
    yield _compare("layer norm backward", backward, (gradient, x, mean, deviation, weight, bias))


def _gelu(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x, gradient = (draw(generator, sizes.rows, sizes.inner) for _ in range(2))
    for approximate, name in (("none", "GELU (erf)"), ("tanh", "GELU (tanh)")):
        yield _compare(
            f"{name} forward", lambda x, a=approximate: functional.gelu(x, approximate=a), (x,)
        )
        yield _compare(
            f"{name} backward",
            lambda g, x, a=approximate: torch.ops.aten.gelu_backward(g, x, approximate=a),
            (gradient, x),
        )


def _optimizer(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for rows in (sizes.inner, sizes.vocabulary):
        yield _adamw(draw(generator, rows, sizes.width), draw(generator, rows, sizes.width))


def _adamw(parameter: torch.Tensor, gradient: torch.Tensor) -> Comparison:
    ours = AdamW(_RATE)
    moments, counters = ours.make_moments(parameter), ours.make_counters()
    theirs = parameter.clone().requires_grad_()
    theirs.grad = gradient
    optimizer = torch.optim.AdamW([theirs], _RATE, weight_decay=ours.weight_decay)

    def update(p: torch.Tensor, g: torch.Tensor, *kept: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, powers = kept[: len(moments)], kept[len(moments) :]
        numbers = ours.advance(dict(zip(counters, powers, strict=True)))
        new, changed = ours.update(p, g, dict(zip(moments, first, strict=True)), numbers)
        return new, *changed.values()

    def step() -> tuple[torch.Tensor, ...]:
        optimizer.step()
        state = optimizer.state[theirs]
        return theirs, state["exp_avg"], state["exp_avg_sq"]

    tensors = (parameter, gradient, *moments.values(), *counters.values())
    return _against("AdamW", update, tensors, step)


def _embedding(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    gradient = draw(generator, sizes.rows, sizes.width)
    tokens = torch.randint(sizes.vocabulary, (sizes.rows,), generator=generator)

    def backward(g: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.aten.embedding_dense_backward(
            g, tokens, sizes.vocabulary, -1, False
        )
        return found

    yield _compare("embedding gradient", backward, (gradient, tokens))


def _cross_entropy(sizes: OperatorSizes, generator: torch.Generator) -> Iterator[Comparison]:
    logits = draw(generator, sizes.rows, sizes.vocabulary)
    labels = torch.randint(sizes.vocabulary, (sizes.rows,), generator=generator)

    def both(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            loss = functional.cross_entropy(leaf, labels)
            return loss, *torch.autograd.grad(loss, [leaf])

    yield _compare("cross-entropy forward and backward", both, (logits, labels))
