"""LoRA (Hu et al., arXiv 2106.09685): a frozen model learns through thin adapters."""

from collections.abc import Callable
from math import inf

from torch import Tensor, nn

from moot.offchain.errors import UsageError, suggest
from moot.offchain.frontend.optimizers import everything
from moot.offchain.frontend.schedules import require_count, require_number


class Adapted(nn.Module):
    """A linear layer that is frozen, plus alpha / rank times a product of two that learn.

    The second one begins as zeros, so that the layer begins as it was.
    """

    def __init__(
        self, layer: nn.Module, inputs: int, outputs: int, rank: int, alpha: float
    ) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer and its adapter make of the input together."""
        result: Tensor = self.layer(x) + self.up(self.down(x)) * self.scale
        return result


def adapt(
    model: nn.Module,
    rank: int = 8,
    alpha: float = 16.0,
    matches: Callable[[str], bool] = everything,
) -> list[str]:
    """Freeze a model and put adapters around its linear layers; the model is changed.

    Adapters are drawn from torch's generator.

    Args:
        model: any module with `nn.Linear` layers, or with the transformers library's `Conv1D`.
        rank: inner width of the adapters.
        alpha: scale of the adapters, times the rank.
        matches: whether the layer of this name gets an adapter.

    Returns:
        The names of the layers that got one.

    Raises:
        UsageError: no layer matches, or a number makes no sense.
    """
    require_count("the rank", rank, 1)
    require_number("alpha", alpha, 0, inf)
    layers = {n: module for n, module in model.named_modules() if n and _find_sizes(module)}
    chosen = [name for name in layers if matches(name)]
    if not chosen:
        raise UsageError(f"no linear layer matches; {suggest('', layers, 'linear layers')}")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    adapters = {}
    for name in chosen:
        inputs, outputs = _find_sizes(layers[name]) or (0, 0)
        adapters[layers[name]] = Adapted(layers[name], inputs, outputs, rank, alpha)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child in adapters and parent is not adapters[child]:
                setattr(parent, name, adapters[child])
    return chosen


def _find_sizes(module: nn.Module) -> tuple[int, int] | None:
    """Return the inputs and outputs of a layer that may be adapted.

    Subclasses are left alone: their owners may use their weights without calling them.
    """
    if type(module) is nn.Linear:
        return module.in_features, module.out_features
    if type(module).__name__ == "Conv1D" and isinstance(weight := module.weight, Tensor):
        return weight.shape[0], weight.shape[1]
    return None
