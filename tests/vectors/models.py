"""The models of the vectors: tiny ones, with weights and batches that no library draws."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.optimizers import SGD, AdamW, Optimizer
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.vectors.files import Document, make_document
from tests.vectors.programs import make_case
from tests.vectors.tensors import FLOAT32, INT64, draw

Loss = Callable[..., torch.Tensor]

VOCABULARY, TOKENS, CLASSES, SIDE = 24, 6, 10, 6


def draw_weights(name: str, model: torch.nn.Module) -> None:
    """Give a model's matrices the weights of a name; its vectors keep what torch sets them to."""
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim > 1:
                weights = torch.from_numpy(draw(f"{name} {key}", FLOAT32, *parameter.shape))
                parameter.copy_(weights / 16)
            elif "bias" in key:
                parameter.zero_()


def _tensor(name: str, *shape: int) -> torch.Tensor:
    return torch.from_numpy(draw(name, FLOAT32, *shape))


def _labels(name: str, *shape: int, below: int) -> torch.Tensor:
    return torch.from_numpy(draw(name, INT64, *shape, below=below))


def classification_loss(
    model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the mean cross-entropy of the labels."""
    return functional.cross_entropy(model(images), labels)


def _train(name: str, model: torch.nn.Module, optimizer: Optimizer, channels: int) -> Captured:
    return capture(_make_recipe(name, model, optimizer, channels))


def _make_recipe(
    name: str, model: torch.nn.Module, optimizer: Optimizer, channels: int
) -> TrainingRecipe:
    draw_weights(name, model)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        images = _tensor(f"{name} images {step}", 2, channels, SIDE, SIDE)
        return images, _labels(f"{name} labels {step}", 2, below=CLASSES)

    return TrainingRecipe(model.train(), classification_loss, optimizer, batch)


def capture_mlp() -> Captured:
    """Return a perceptron that learns by gradient descent with momentum."""
    layers = torch.nn.Linear(SIDE * SIDE, 8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES)
    model = torch.nn.Sequential(torch.nn.Flatten(), *layers)
    return _train("mlp", model, SGD(0.05, momentum=0.9, weight_decay=0.01), 1)


def capture_narrow_mlp() -> Captured:
    """Return the perceptron with products of bfloat16 numbers, and weights of binary32."""
    layers = torch.nn.Linear(SIDE * SIDE, 8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES)
    model = torch.nn.Sequential(torch.nn.Flatten(), *layers)
    recipe = _make_recipe("mlp-bf16", model, AdamW(3e-3), 1)
    return capture(set_precision(recipe, "bf16"))


def capture_cnn() -> Captured:
    """Return strided and grouped convolutions with batch norm that learn by gradient descent."""
    nn = torch.nn
    first = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(4, 4, 1, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    model = nn.Sequential(*first, *second, nn.Linear(4, CLASSES))
    return _train("cnn", model, SGD(0.05, momentum=0.9), 2)


def causal_loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of every token but the first, given those before it."""
    logits = model(tokens).logits[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def capture_gpt2() -> Captured:
    """Return GPT-2 of one layer, with dropout, that learns by AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415 - heavy and optional

    untyped: dict[str, Any] = {"attn_implementation": "eager"}
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=TOKENS,
        n_embd=8,
        n_layer=1,
        n_head=2,
        n_inner=16,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **untyped,
    )
    model = GPT2LMHeadModel(config).train()
    draw_weights("gpt2", model)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        return (_labels(f"gpt2 tokens {step}", 2, TOKENS, below=VOCABULARY),)

    return capture(TrainingRecipe(model, causal_loss, AdamW(3e-3), batch, seed=11))


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


_MATRIX = _tensor("matrix", 3, 5)
_HEADS = tuple(_tensor(f"heads {name}", 2, 4, 3) for name in "qkv")
_IMAGE, _WEIGHT = _tensor("image", 1, 2, 5, 5), _tensor("weight", 4, 1, 3, 3)

FUNCTIONS: Mapping[str, tuple[Loss, tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: x.softmax(-1), (_MATRIX,)),
    "layer norm": (lambda x: functional.layer_norm(x, (5,)), (_MATRIX,)),
    "GELU": (functional.gelu, (_MATRIX,)),
    "causal attention": (_attend, _HEADS),
    "grouped convolution": (
        lambda x, w: functional.conv2d(x, w, None, 2, 1, 1, 2),
        (_IMAGE, _WEIGHT),
    ),
    "cross-entropy": (functional.cross_entropy, (_MATRIX, _labels("labels", 3, below=5))),
    "dropout": (lambda x: functional.dropout(x, 0.25), (_MATRIX,)),
    "mean of a long vector": (torch.mean, (_tensor("vector", 300),)),
}


def make_vector(name: str, captured: Captured, steps: int, *, whole: bool = False) -> Any:
    """Return the vector of a captured program."""
    batches = [captured.batch(step) for step in range(steps)]
    return make_case(name, captured.program, captured.initial_state, batches, whole=whole)


def capture_function(function: Loss, inputs: tuple[torch.Tensor, ...]) -> Captured:
    """Return the program of a function of tensors, which are its batch."""

    def forward(_: torch.nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        return function(*batch)

    return capture(InferenceRecipe(torch.nn.Module(), forward, lambda _: inputs, seed=5))


def make_functions() -> Document:
    """Return the vectors of some functions of tensors."""
    captured = {name: capture_function(*what) for name, what in FUNCTIONS.items()}
    return make_document([make_vector(name, one, 1, whole=True) for name, one in captured.items()])


def make_mlp() -> Document:
    """Return the vector of a perceptron's training."""
    return make_document([make_vector("mlp", capture_mlp(), 6, whole=True)])


def make_narrow_mlp() -> Document:
    """Return the vector of a perceptron's training in mixed precision."""
    return make_document([make_vector("mlp-bf16", capture_narrow_mlp(), 4, whole=True)])


def make_cnn() -> Document:
    """Return the vector of a convolutional network's training."""
    return make_document([make_vector("cnn", capture_cnn(), 4)])


def make_gpt2() -> Document:
    """Return the vector of a language model's training."""
    return make_document([make_vector("gpt2", capture_gpt2(), 4)])
