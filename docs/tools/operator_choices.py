"""Where programs differ from eager torch on special inputs, and why, for the table in operators.md.

`tests/battery` tries every rule on special inputs; what differs there has the key of a choice.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Choice(NamedTuple):
    """A difference that stays.

    Attributes:
        operators: the operators, as users call them.
        inputs: when they differ.
        theirs: what eager torch has on a processor.
        ours: what a program has.
        reason: why it stays so.
    """

    operators: str
    inputs: str
    theirs: str
    ours: str
    reason: str


CHOICES: Mapping[str, Choice] = {
    "kernels": Choice(
        "`hardshrink`, `hardtanh`, `relu6`, `softshrink`, `gelu`, `hardswish`, `elu`, `celu`, "
        "`selu`, `logit`",
        "NaN, infinities",
        "one result for numbers that fill a vector register, another for the rest",
        "the one that follows from the definition: the gradient passes at NaN, gelu(inf) is inf",
        "torch's depends on the place in the tensor and on the processor",
    ),
    "integers": Choice(
        "`x.long()`, `x.int()`, fake quantization",
        "numbers beyond the type, infinities, NaN",
        "what the processor's conversion leaves",
        "the nearest integer of the type; 0 for NaN, which fake quantization keeps",
        "C leaves it undefined",
    ),
    "norms": Choice(
        "batch, instance, layer and group norm, `var_mean`",
        "sums or squares beyond 3.4e38, an infinity",
        "0 or NaN, by the kernel: some add in float64, some take E[x^2] - E[x]^2",
        "the variance of float32 sums: inf, so that what is divided by it is 0, or NaN",
        "a scale for each mean would cost two more passes over every activation",
    ),
    "margins": Choice(
        "`multi_margin_loss`, `multilabel_margin_loss`",
        "NaN",
        "a pair whose cost is NaN costs nothing",
        "the loss is NaN, or only the gradient: multi_margin_loss with p = 2",
        "a loss that leaves NaN out hides that training has failed",
    ),
    "overflowing exponential": Choice(
        "the gradient of `soft_margin_loss`",
        "products -y x above 88",
        "NaN, the quotient of two infinities",
        "the limit, -y",
        "it is the gradient",
    ),
    "alignments": Choice(
        "`ctc_loss`",
        "logarithms of probabilities that are above 0 or below -1e20",
        "NaN or what the order of its sums leaves",
        "inf or 0",
        "no such number is the logarithm of a probability",
    ),
    "distances": Choice(
        "the gradient of `cdist`",
        "NaN",
        "NaN at all coordinates (p = 1), or none (p = inf)",
        "NaN passes where the formula has it",
        "the distance itself is NaN",
    ),
    "attention": Choice(
        "`scaled_dot_product_attention`",
        "scores that are infinite or NaN (a row that is masked throughout gives 0 in both)",
        "its fused kernel leaves NaN out where it looks for the maximum: 0, or a number",
        "NaN, as products and softmax have it",
        "a fused kernel's blocks are no part of what attention means; training has failed there",
    ),
    "bilinear": Choice(
        "`bilinear`",
        "infinities, products beyond 3.4e38",
        "two products of matrices, one factor after the other",
        "products of three numbers, and their sum",
        "it is a matter of order which of them leaves the range",
    ),
    "convolutions": Choice(
        "gradients of convolutions with padding",
        "infinities, NaN",
        "its kernel leaves padding out, or does not",
        "0 of the padding times an infinity is NaN",
        "padding is zeros",
    ),
    "ties": Choice(
        "`kthvalue`, `topk`, `median`, `nanmedian`, `mode`, max pooling",
        "equal elements, NaN",
        "the place that its algorithm comes to: max pooling takes the last NaN, `topk` any",
        "the first; with `mode`, the last",
        "argmax and sort of the arithmetic take the first",
    ),
    "interpolation": Choice(
        "`interpolate`, `Upsample`",
        "infinities, NaN, differences beyond 3.4e38",
        "(1 - w) a + w b, in which a pixel of no weight may be left out",
        "a + w (b - a), as torch's decomposition has it: NaN beside an infinity; with "
        "antialiasing, a product with a matrix, in which NaN reaches its row and column",
        "another formula would round ordinary pixels in another way",
    ),
    "grids": Choice(
        "`grid_sample`",
        "coordinates that are infinite or NaN, pixels that are",
        "what C makes of such a coordinate; no read where a weight is 0",
        "0 or NaN; 0 times an infinite pixel is NaN",
        "the conversion is undefined in C",
    ),
    "products": Choice(
        "the gradient of `prod`, `cumprod`",
        "products beyond 3.4e38 or below 1e-45, an infinity",
        "the quotient of the product by each element where none is 0",
        "products of those before and those behind each element, which hold zeros, too",
        "which formula torch takes depends on data",
    ),
    "long norms": Choice(
        "the gradient of `renorm`, `Embedding(max_norm=...)`",
        "norms beyond 1e19",
        "a norm of float64 for the gradient alone",
        "0: the norm is inf in float32, as in torch's forward pass",
        "the gradient belongs to what the forward pass computes",
    ),
    "running sums": Choice(
        "`CrossMapLRN2d`",
        "infinities, NaN",
        "one sum, to which channels are added and from which they are taken away: NaN from the "
        "first such channel on",
        "the sum of each window, in which no other channel has a part",
        "such a sum keeps the errors of all channels before",
    ),
    "lines": Choice(
        "`searchsorted`, `bucketize`",
        "a line that is not sorted, or has NaN",
        "where a binary search comes to",
        "the number of elements that come before",
        "neither is defined",
    ),
    "remainders": Choice(
        "`fmod`, `remainder`",
        "quotients beyond 3.4e38",
        "NaN",
        "the exact remainder",
        "it is C's",
    ),
    "reflections": Choice(
        "`qr`, `geqrf`, `lstsq`, `householder_product`",
        "dependent columns, infinities, NaN, subnormal numbers; factors that are no reflections",
        "what rounding leaves, as a direction; LAPACK skips zeros, flushes subnormal numbers and "
        "loses NaN",
        "other rounding errors, as a direction; NaN reaches every column; `lstsq` gives NaN",
        "no direction is right; only reflections come from factorizations",
    ),
    "systems": Choice(
        "`det`, `slogdet`, `logdet`, `inv`, `solve`, `lu`, `lu_factor`, `lu_solve`",
        "singular or subnormal matrices, infinities, NaN",
        "LAPACK multiplies by a pivot's reciprocal, and skips zeros; gradients of inf and NaN; "
        "`inv` raises an error; a NaN is no pivot",
        "quotients; that gradient is NaN; an inverse of infinities and NaN; a NaN is a pivot",
        "a step always ends; LAPACK differs between versions",
    ),
    "spectra": Choice(
        "`eigh`, `eigvalsh`, `svd`, `svdvals`, `pinv`, `matrix_rank`, `cond`, `matrix_norm`",
        "equal or negligible eigenvalues or singular values, infinities, NaN",
        "any vectors of such values; gradients divide by what rounding leaves between them; errors",
        "other vectors; gradients that are inf or NaN where values are equal; NaN",
        "no vectors are right: give losses that do not depend on them",
    ),
    "matrix exponentials": Choice(
        "`matrix_exp`",
        "norms above 2^24",
        "a power of a matrix of which rounding has left no digit, or inf",
        "NaN",
        "a fixed number of squarings is written out",
    ),
    "transforms": Choice(
        "`torch.fft`, `stft`",
        "infinities, NaN, sums beyond 3.4e38",
        "they reach the outputs that a fast algorithm makes of them",
        "they reach every output, as in the sum that defines it",
        "a transform is a product with a matrix",
    ),
    "parts": Choice(
        "complex numbers",
        "infinities, NaN, squares below 1e-45",
        "a real factor is a complex one, whose 0 makes NaN of an infinity; the gradient of an "
        "angle divides by a square",
        "a real factor scales both parts; sizes are scaled before they are squared",
        "C's own rules for infinite complex numbers differ from torch's, too",
    ),
}
"""Key, as in tests/battery/record.json -> choice."""
