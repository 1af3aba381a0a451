"""The shapes of real models that are measured, as data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Layout(StrEnum):
    """The layout of a product's factors: N as they are used, T transposed; the left one first."""

    NN = "NN"
    NT = "NT"
    TN = "TN"


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product, or a batch of them: (rows, inner) times (inner, columns).

    `is_constant` says that the right factor is a parameter, which a library may pack beforehand.
    """

    name: str
    batch: int
    rows: int
    inner: int
    columns: int
    layout: Layout
    is_constant: bool = False

    def describe(self) -> str:
        """Return its sizes and its layout, as tables have them."""
        times = f"{self.batch} x " if self.batch > 1 else ""
        return f"{times}{self.rows} x {self.inner} x {self.columns} {self.layout}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A product of a model: activations (rows, inner) times weights (inner, columns).

    `is_transposed` says that the weights are stored as (columns, inner). In a batch, which is what
    attention has, the weights are activations too.
    """

    name: str
    rows: int
    inner: int
    columns: int
    batch: int = 1
    is_transposed: bool = True


def list_products(layer: Layer) -> Iterator[Product]:
    """Yield a layer's products, as autograd computes them: forward, and both gradients."""
    batch, rows, inner, columns = layer.batch, layer.rows, layer.inner, layer.columns
    forward, back = (Layout.NT, Layout.NN) if layer.is_transposed else (Layout.NN, Layout.NT)
    is_constant = batch == 1
    yield Product(f"{layer.name} forward", batch, rows, inner, columns, forward, is_constant)
    yield Product(f"{layer.name} input gradient", batch, rows, columns, inner, back, is_constant)
    ends = (columns, inner) if layer.is_transposed else (inner, columns)
    left, right = ends
    yield Product(f"{layer.name} weight gradient", batch, left, rows, right, Layout.TN)


def _attention(heads: int, tokens: int, width: int) -> tuple[Layer, Layer]:
    return (
        Layer("attention scores", tokens, width, tokens, heads),
        Layer("attention values", tokens, tokens, width, heads, is_transposed=False),
    )


def _gpt2(name: str, inner: int, columns: int) -> Layer:
    return Layer(name, 4 * 256, inner, columns, is_transposed=False)


PRODUCTS: Mapping[str, tuple[Layer, ...]] = {
    "gpt2": (  # GPT-2 124M, 4 x 256 tokens
        _gpt2("query, key, value", 768, 3 * 768),
        _gpt2("attention output", 768, 768),
        _gpt2("mlp up", 768, 3072),
        _gpt2("mlp down", 3072, 768),
        Layer("head", 4 * 256, 768, 50257),
        *_attention(4 * 12, 256, 64),
    ),
    "llama": (  # Llama 3.2 1B, 512 tokens
        Layer("query, output", 512, 2048, 2048),
        Layer("key, value", 512, 2048, 512),
        Layer("mlp gate, up", 512, 2048, 8192),
        Layer("mlp down", 512, 8192, 2048),
        Layer("head", 512, 2048, 128256),
        *_attention(32, 512, 64),
    ),
    "bert": (  # BERT-base, 8 x 128 tokens
        Layer("query, key, value, output", 8 * 128, 768, 768),
        Layer("mlp up", 8 * 128, 768, 3072),
        Layer("mlp down", 8 * 128, 3072, 768),
        Layer("head", 8 * 128, 768, 30522),
        *_attention(8 * 12, 128, 64),
    ),
    "vit": (  # ViT-B/16, 8 images of 224 x 224
        Layer("patches", 8 * 196, 768, 768),
        Layer("query, key, value, output", 8 * 197, 768, 768),
        Layer("mlp up", 8 * 197, 768, 3072),
        Layer("mlp down", 8 * 197, 3072, 768),
        Layer("head", 8, 768, 1000),
        *_attention(8 * 12, 197, 64),
    ),
}

TINY_PRODUCTS: Mapping[str, tuple[Layer, ...]] = {
    "gpt2": (_gpt2("mlp up", 8, 24), *_attention(2, 6, 5)),
    "bert": (Layer("mlp up", 7, 9, 11),),
}


INTEGER_PRODUCTS = (  # rows, inner, columns: squares, and layers of GPT-2 124M for some tokens
    (512, 512, 512),
    (1024, 1024, 1024),
    (32, 1024, 1024),
    (256, 768, 3072),
    (256, 3072, 768),
    (1024, 768, 3072),
    (1, 768, 3072),
    (8, 768, 3072),
)

TINY_INTEGER_PRODUCTS = ((16, 64, 32), (3, 9, 5))


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of square images by square windows, without bias."""

    channels: int
    filters: int
    window: int
    stride: int
    side: int
    has_input_gradient: bool = True

    @property
    def padding(self) -> int:
        """Zeros around the image."""
        return self.window // 2


BATCHES = (1, 16)

CONVOLUTIONS = (  # the 23 distinct ones of ResNet-50, on images of 224 x 224
    Convolution(3, 64, 7, 2, 224, has_input_gradient=False),
    Convolution(64, 64, 1, 1, 56),
    Convolution(64, 64, 3, 1, 56),
    Convolution(64, 256, 1, 1, 56),
    Convolution(256, 64, 1, 1, 56),
    Convolution(256, 128, 1, 1, 56),
    Convolution(128, 128, 3, 2, 56),
    Convolution(256, 512, 1, 2, 56),
    Convolution(128, 512, 1, 1, 28),
    Convolution(512, 128, 1, 1, 28),
    Convolution(128, 128, 3, 1, 28),
    Convolution(512, 256, 1, 1, 28),
    Convolution(256, 256, 3, 2, 28),
    Convolution(512, 1024, 1, 2, 28),
    Convolution(256, 1024, 1, 1, 14),
    Convolution(1024, 256, 1, 1, 14),
    Convolution(256, 256, 3, 1, 14),
    Convolution(1024, 512, 1, 1, 14),
    Convolution(512, 512, 3, 2, 14),
    Convolution(1024, 2048, 1, 2, 14),
    Convolution(512, 2048, 1, 1, 7),
    Convolution(2048, 512, 1, 1, 7),
    Convolution(512, 512, 3, 1, 7),
)

TINY_CONVOLUTIONS = (
    Convolution(3, 4, 7, 2, 12, has_input_gradient=False),
    Convolution(4, 6, 1, 2, 6),
    Convolution(4, 4, 3, 1, 6),
)


@dataclass(frozen=True, slots=True)
class OperatorSizes:
    """Sizes of the operators that are neither products nor convolutions: those of GPT-2 124M."""

    rows: int = 4 * 256
    width: int = 768
    inner: int = 3072
    vocabulary: int = 50257
    scores: tuple[int, int, int, int] = (4, 12, 256, 256)


TINY_OPERATORS = OperatorSizes(rows=6, width=8, inner=12, vocabulary=10, scores=(1, 2, 4, 4))


@dataclass(frozen=True, slots=True)
class PointwiseSizes:
    """Sizes of maps, of reductions of everything, and of products of a matrix and a vector."""

    small: tuple[tuple[int, ...], ...] = ((64,), (64, 64))
    rows: int = 1024
    columns: int = 3072
    scores: tuple[int, int] = (4096, 256)
    long: tuple[int, ...] = (1_000_000, 16_000_000)
    matrices: tuple[tuple[int, int], ...] = ((4096, 4096), (768, 50257))


TINY_POINTWISE = PointwiseSizes(
    small=((2,),), rows=6, columns=12, scores=(4, 5), long=(40,), matrices=((5, 7),)
)


@dataclass(frozen=True, slots=True)
class IndexSizes:
    """Sizes of operators that select, place, pool, resample and rearrange elements."""

    vocabulary: int = 50257
    width: int = 768
    tokens: tuple[tuple[int, int], ...] = ((1, 1), (4, 256), (16, 512))
    rows: int = 1024
    table: int = 4096
    scattered: tuple[tuple[int, int], ...] = ((100_000, 10_000), (1_000_000, 1_000_000))
    added: tuple[int, int, int] = (100_000, 10_000, 64)
    candidates: tuple[int, ...] = (1, 64)
    best: int = 50
    sorted: tuple[int, int] = (64, 1024)
    pooled: tuple[int, int, int, int] = (16, 64, 112, 112)
    averaged: tuple[int, int, int, int] = (16, 2048, 7, 7)
    resized: tuple[int, int, int, int] = (4, 64, 56, 56)
    heads: tuple[int, int, int, int] = (4, 256, 12, 64)


TINY_INDICES = IndexSizes(
    vocabulary=300,
    width=8,
    tokens=((1, 1), (2, 3)),
    rows=6,
    table=9,
    scattered=((20, 5),),
    added=(7, 4, 3),
    candidates=(1,),
    best=3,
    sorted=(2, 5),
    pooled=(1, 2, 6, 6),
    averaged=(2, 3, 3, 3),
    resized=(1, 2, 4, 4),
    heads=(1, 4, 2, 3),
)


@dataclass(frozen=True, slots=True)
class GroupedConvolution:
    """A convolution, in groups or of volumes, of a batch of one; its padding keeps the size."""

    name: str
    channels: int
    filters: int
    groups: int
    window: tuple[int, ...]
    stride: int
    sides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes of layers: long attention, recurrence, and convolutions other than ResNet-50's."""

    heads: tuple[int, int, int, int] = (1, 12, 2048, 64)
    recurrent: tuple[tuple[int, int, int, int], ...] = ((64, 8, 256, 512), (64, 1, 128, 128))
    convolutions: tuple[GroupedConvolution, ...] = (
        GroupedConvolution("depthwise", 32, 32, 32, (3, 3), 1, (112, 112)),
        GroupedConvolution("depthwise", 144, 144, 144, (3, 3), 2, (56, 56)),
        GroupedConvolution("depthwise", 384, 384, 384, (5, 5), 1, (28, 28)),
        GroupedConvolution("depthwise", 960, 960, 960, (3, 3), 1, (7, 7)),
        GroupedConvolution("grouped", 128, 128, 32, (3, 3), 1, (56, 56)),
        GroupedConvolution("grouped", 512, 512, 32, (3, 3), 1, (14, 14)),
        GroupedConvolution("of volumes", 32, 32, 1, (3, 3, 3), 1, (16, 28, 28)),
        GroupedConvolution("of sequences", 256, 256, 1, (5,), 1, (1024,)),
    )


TINY_LAYERS = LayerSizes(
    heads=(1, 2, 5, 4),
    recurrent=((3, 2, 4, 5),),
    convolutions=(
        GroupedConvolution("depthwise", 4, 4, 4, (3, 3), 2, (6, 6)),
        GroupedConvolution("of volumes", 2, 3, 1, (3, 3, 3), 1, (4, 4, 4)),
    ),
)


@dataclass(frozen=True, slots=True)
class GenerationSizes:
    """Sizes of texts: tokens of a prompt, tokens that follow it one by one, texts at once."""

    size: str = "full"
    prompt: int = 128
    tokens: int = 16
    texts: tuple[int, ...] = (1, 8)


@dataclass(frozen=True, slots=True)
class ServingSizes:
    """Sizes of requests: models, tokens of a prompt and of its answer, requests at once."""

    models: tuple[tuple[str, str], ...] = (("llama", "small"), ("gpt2", "full"))
    prompt: int = 64
    tokens: int = 32
    context: int = 128
    requests: tuple[int, ...] = (1, 8, 32)


@dataclass(frozen=True, slots=True)
class ReceiptSizes:
    """Sizes of answers with receipts: models, tokens of a prompt and of its answer."""

    models: tuple[tuple[str, str], ...] = (("llama", "small"), ("gpt2", "full"))
    prompt: int = 64
    tokens: tuple[int, ...] = (32, 128, 512)
    context: int = 1024


TINY_RECEIPTS = ReceiptSizes((("llama", "tiny"),), prompt=3, tokens=(2,), context=8)

TINY_SERVING = ServingSizes((("llama", "tiny"),), prompt=3, tokens=2, context=8, requests=(1, 2))

TINY_GENERATION = GenerationSizes("tiny", prompt=4, tokens=2, texts=(1,))
