"""Random numbers: properties of the draws, which are Philox's and not torch's."""

import torch
from torch import Tensor, distributions
from torch.nn import functional

from tests.corpus.rows import Row, draw, ramp

LOGITS = ramp(400, 5)
WEIGHTS = torch.tensor([0.1, 0.0, 0.4, 0.5]).expand(2000, 4)
SHAPES = torch.tensor([1.0, 2.0, 2.0]).expand(2000, 3)
ZEROS = torch.zeros(2000)


def _moments(mean: float, deviation: float) -> object:
    def holds(outputs: list[Tensor]) -> bool:
        x = outputs[0].float()
        return abs(float(x.mean()) - mean) < 0.15 and abs(float(x.std()) - deviation) < 0.15

    return holds


def _is_permutation(outputs: list[Tensor]) -> bool:
    x = outputs[0]
    return x.sort()[0].tolist() == list(range(50)) and x.tolist() != list(range(50))


def _is_one_hot(outputs: list[Tensor]) -> bool:
    return bool((outputs[0].sum(-1) == 1).all()) and len(outputs[0].argmax(-1).unique()) == 5


def _follows(outputs: list[Tensor]) -> bool:
    share = torch.bincount(outputs[0].flatten(), minlength=4) / outputs[0].numel()
    return bool((share - WEIGHTS[0]).abs().max() < 0.05)


def _row(name: str, function: object, mean: float, deviation: float, *inputs: Tensor) -> Row:
    return draw(name, function, _moments(mean, deviation), *(inputs or (ZEROS,)))  # type: ignore[arg-type]


ROWS: tuple[Row, ...] = (
    _row("rand", lambda x: torch.rand(2000) + x, 0.5, 0.289),
    _row("randn", lambda x: torch.randn(2000) + x, 0, 1),
    _row("randint", lambda x: torch.randint(2, 8, (2000,)) + x, 4.5, 1.708),
    _row("rand_like", torch.rand_like, 0.5, 0.289),
    _row("randn_like", torch.randn_like, 0, 1),
    _row("randint_like", lambda x: torch.randint_like(x, 6), 2.5, 1.708),
    _row("normal", lambda x: torch.normal(x + 1, 0.5), 1, 0.5),
    _row("bernoulli", lambda x: torch.bernoulli(x + 0.3), 0.3, 0.458),
    _row("uniform_", lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 1.155),
    _row("normal_", lambda x: torch.empty_like(x).normal_(2, 0.5), 2, 0.5),
    _row("bernoulli_", lambda x: torch.empty_like(x).bernoulli_(0.3), 0.3, 0.458),
    _row("exponential_", lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5),
    _row("geometric_", lambda x: torch.empty_like(x).geometric_(0.5), 2, 1.414),
    _row("log_normal_", lambda x: torch.empty_like(x).log_normal_(0, 0.25), 1.03, 0.262),
    draw(
        "cauchy_",
        lambda x: torch.empty_like(x).cauchy_(),
        lambda outputs: abs(float(outputs[0].median())) < 0.1,
        ZEROS,
    ),
    draw("randperm", lambda x: torch.randperm(50) + x[0].long(), _is_permutation, ZEROS),
    draw("multinomial", lambda w: torch.multinomial(w, 1), _follows, WEIGHTS),
    draw(
        "multinomial replacement",
        lambda w: torch.multinomial(w, 3, replacement=True),
        _follows,
        WEIGHTS,
    ),
    draw("gumbel_softmax", lambda x: functional.gumbel_softmax(x, hard=True), _is_one_hot, LOGITS),
    draw(
        "poisson",
        lambda x: torch.poisson(x + 3),
        bool,
        ZEROS,
    ),
    draw(
        "binomial",
        lambda x: torch.binomial(x + 3, x + 0.5),
        bool,
        ZEROS,
    ),
    _row("gamma", lambda x: distributions.Gamma(x + 3, 2.0).sample(), 1.5, 0.866),
    _row("gamma of a small shape", lambda x: torch._standard_gamma(x + 0.5), 0.5, 0.707),
    _row("beta", lambda x: distributions.Beta(x + 0.4, x + 0.4).sample(), 0.5, 0.373),
    _row("dirichlet", lambda a: torch._sample_dirichlet(a)[:, 1], 0.4, 0.2, SHAPES),
    _row("student's t", lambda x: distributions.StudentT(x + 10).sample(), 0, 1.118),
    _row("normal of a size", lambda x: torch.normal(1.0, 2.0, size=(2000,)) + x, 1, 2),
)
