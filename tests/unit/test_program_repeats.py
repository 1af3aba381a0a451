"""Updates that are copied: graphs with them are those in which each parameter's was traced."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.optimizers import SGD, Adafactor, Adam, AdamW, Group, Muon, Optimizer
from moot.offchain.frontend.optimizers.base import Numbers, Tensors, Updated
from moot.offchain.frontend.optimizers.translation import Ascent
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.repeats import Repeats
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import Record, get_initial_state, record
from moot.offchain.frontend.updates import apply
from tests.quick import every


@dataclass(frozen=True, slots=True)
class Watched(Adam):
    """A user's optimizer, which sees its calls."""

    seen: list[int] = field(default_factory=list)

    def update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return what Adam does, and each time with another factor."""
        self.seen.append(1)
        return Adam.update(self, parameter, gradient * len(self.seen), moments, numbers)


OPTIMIZERS: dict[str, Callable[[], Optimizer | tuple[Group, ...]]] = {
    "sgd": lambda: SGD(0.1),
    "momentum": lambda: SGD(0.1, momentum=0.9),
    "adamw": lambda: AdamW(1e-3, amsgrad=True),
    "ascent": lambda: Ascent(AdamW(1e-3)),
    "adafactor": Adafactor,
    "two": lambda: (
        Group(lambda name: name.endswith("weight"), Muon()),
        Group(lambda name: name.startswith("0"), AdamW(1e-2)),
        Group(lambda _: True, AdamW(1e-3)),
    ),
    "a user's": Watched,
    "a user's ascent": lambda: Ascent(Watched()),
}


def _make_recipe(make: Callable[[], Optimizer | tuple[Group, ...]]) -> TrainingRecipe:
    """Return a recipe with parameters of two shapes."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4, bias=number < 2) for number in range(3)]
    model = torch.nn.Sequential(*layers)

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (model(x) ** 2).mean()

    return TrainingRecipe(model, loss, make(), lambda _: (torch.ones(3, 4),))


def _trace(recipe: TrainingRecipe) -> Record:
    subject = Subject.of(recipe)
    return record(subject, get_initial_state(subject), recipe.batch(0), {})


@pytest.mark.parametrize("clip", [None, ClipNorm(1.0)])
@pytest.mark.parametrize("name", every(12, OPTIMIZERS))
def test_copies_are_what_tracing_makes(
    name: str, clip: ClipNorm | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same operators under the same names, of the same forms and lines, in the same order."""
    copied = _trace(replace(_make_recipe(OPTIMIZERS[name]), clip=clip))
    monkeypatch.setattr(Repeats, "update", lambda _, *given: apply(*given))
    traced = _trace(replace(_make_recipe(OPTIMIZERS[name]), clip=clip))
    assert copied.find_difference(traced) is None
    assert [*copied.list_content()] == [*traced.list_content()]
    pairs = zip(copied.graph.graph.nodes, traced.graph.graph.nodes, strict=True)
    assert all(_describe(a) == _describe(b) for a, b in pairs)


def _describe(node: torch.fx.Node) -> object:
    value = node.meta.get("val")
    return value is not None and (value.dtype, value.shape, value.stride())


@pytest.mark.parametrize(("make", "expected"), [(AdamW, 2), (Watched, 5)])
def test_ours_are_traced_once_for_each_form(
    make: type[Adam], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix and a bias; of a user's, all five parameters."""
    calls = []
    update = make.update

    def count(*given: object) -> Updated:
        calls.append(given)
        return update(*given)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(make, "update", count)
    _trace(_make_recipe(make))
    assert len(calls) == expected


def test_what_makes_updates_differ() -> None:
    """The strides of a gradient, two places of one tensor, another optimizer."""
    numbers = {"rate": 0.5}

    def step(share: bool, *given: torch.Tensor) -> list[torch.Tensor]:  # noqa: FBT001 - one of two
        mode = get_proxy_mode()
        assert mode is not None
        update = Repeats(mode.tracer).update if share else apply
        a, b, c = given
        calls = [(a, a), (b, b), (a, b), (b, c), (a, b.t()), (b, c.t())]
        plain, heavy = SGD(0.5), SGD(0.5, weight_decay=0.1)
        return [update(o, x, y, {}, numbers)[0] for o in (plain, heavy) for x, y in calls]

    given = [torch.zeros(4, 4) for _ in range(3)]
    graphs = [make_fx(partial(step, share), tracing_mode="fake")(*given) for share in (True, False)]
    assert graphs[0].code == graphs[1].code
    pairs = zip(*(graph.graph.nodes for graph in graphs), strict=True)
    assert all(_describe(a) == _describe(b) for a, b in pairs)
