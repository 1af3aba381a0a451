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
        "`hardshrink`, `hardtanh`, `relu6`, `softshrink`, `gelu`, `hardswish`, `elu` and their kind",
        "NaN, infinities",
        "one result for the numbers that fill a vector register, another for the rest of the tensor",
        "the one that follows from the definition: the gradient passes at NaN, gelu(inf) is inf",
        "torch's depends on the place in the tensor and on the processor",
    ),
    "integers": Choice(
        "`x.long()`, `x.int()`",
        "numbers beyond the type, infinities, NaN",
        "what the processor's conversion leaves",
        "the nearest integer of the type; 0 for NaN",
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
        "the loss is NaN",
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
}
"""Key, as in tests/battery/record.json -> choice."""
