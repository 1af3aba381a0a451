"""The rules of choices where several answers are possible, for the table in operators.md."""

from typing import NamedTuple


class Tie(NamedTuple):
    """A choice that several operators make alike.

    Attributes:
        operators: their names in ATen, without overloads.
        rule: what a program takes, and where the gradient goes.
        is_open: whether torch leaves it open, so that its kernel may take others.
        remark: how torch's kernel differs, if it does.
    """

    operators: str
    rule: str
    is_open: bool = False
    remark: str = ""


TIES = (
    Tie(
        "topk",
        "the first of equal elements, in their order",
        is_open=True,
        remark="elements near the border and their order are those that a partition leaves; "
        "k = 1 of 64 or more elements is the first",
    ),
    Tie(
        "sort",
        "equal elements in the order in which they were, also descending; NaN is above all numbers",
        is_open=True,
        remark="with `stable=True` the same; without, an order that depends on the processor. So "
        "for what sorts inside: argsort, msort, and the gradient of quantile",
    ),
    Tie(
        "kthvalue",
        "the k-th in the order of a stable sort",
        is_open=True,
        remark="any of the equal elements",
    ),
    Tie(
        "mode",
        "the least of the most frequent values, at its last place",
        is_open=True,
        remark="any place of lines of more than 16 elements",
    ),
    Tie(
        "index_put _unsafe_index_put",
        "of several values for one place the last one, in row-major order of the indices",
        is_open=True,
        remark="the last one in memory: the same where indices and values are contiguous",
    ),
    Tie(
        "scatter put",
        "of several values for one place the last one; so index_copy, index_fill, masked_scatter",
    ),
    Tie("argmax argmin max min", "along an axis the first of equal elements, or the first NaN"),
    Tie("cummax cummin", "the last of equal elements so far, or the last NaN"),
    Tie(
        "amax amin",
        "equal elements share the gradient equally; so max and min of a whole tensor, and norms of "
        "infinite order",
    ),
    Tie("scatter_reduce index_reduce", "amax, amin: equal elements share the gradient equally"),
    Tie("maximum minimum", "each of two equal elements has half of the gradient"),
    Tie("fmax fmin", "the first of two equal elements has the gradient"),
    Tie(
        "median nanmedian",
        "along an axis the middle of a stable sort, or the first NaN; of a whole tensor, equal "
        "elements share the gradient",
        remark="the same, but for the place in a line without any number",
    ),
    Tie(
        "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d",
        "the first of equal elements, or the first NaN",
        remark="the same, but the last NaN",
    ),
    Tie(
        "_embedding_bag",
        "mode max: the first of equal elements, or the first NaN",
        remark="the same, but a NaN that is not first counts for nothing",
    ),
    Tie("clamp clamp_min", "at a bound the whole gradient"),
    Tie(
        "relu hardtanh hardsigmoid hardswish threshold leaky_relu _prelu_kernel elu",
        "at a bend the gradient of the piece below; hardtanh, relu6 and hardsigmoid: none at both",
    ),
    Tie("abs sign sgn", "no gradient at 0"),
    Tie(
        "round round.decimals floor ceil trunc frac fake_quantize_per_tensor_affine_cachemask",
        "halves are rounded to even numbers; no gradient",
    ),
    Tie(
        "_fake_quantize_learnable_per_tensor_affine "
        "_fake_quantize_learnable_per_tensor_affine_backward",
        "halves are rounded to even numbers; gradients add the zero point before they round, and "
        "round halves of a tensor's only zero point up",
    ),
    Tie("div fmod remainder", "a multiple leaves no remainder, with a quotient that is exact"),
    Tie(
        "searchsorted histc",
        "a value comes before an element that equals it, with `right` behind it; at an edge of a "
        "histogram it belongs to the bin above, at the last edge to the last bin",
    ),
    Tie(
        "multi_margin_loss multilabel_margin_loss_forward",
        "no gradient where a margin is kept exactly; hinge, ranking, cosine and triplet losses are "
        "clamped, and have the whole",
    ),
    Tie(
        "smooth_l1_loss smooth_l1_loss_backward huber_loss",
        "at the bend both pieces have one gradient; at 0 there is none",
    ),
    Tie(
        "_cdist_forward _pdist_forward",
        "p = inf: each of the largest differences has the whole gradient; no gradient at 0",
    ),
    Tie(
        "linalg_vector_norm renorm",
        "p = inf: the largest elements share the gradient; no "
        "gradient at 0; a norm at the limit is kept",
    ),
    Tie(
        "grid_sampler_2d grid_sampler_3d",
        "no gradient of a position at the image's border (padding border or reflection); a whole "
        "position belongs to the piece above; nearest: halves to even pixels",
    ),
    Tie("reflection_pad2d_backward col2im nll_loss_backward", "as the elements lie"),
    Tie("linalg_inv_ex linalg_lu_factor_ex", "the first of the largest pivots"),
    Tie(
        "_linalg_eigh",
        "of both signs of an eigenvector, the one with which its largest element, the first of "
        "them, is positive",
        is_open=True,
        remark="either sign; of equal eigenvalues, any vectors that span the same",
    ),
    Tie(
        "_linalg_svd",
        "of both signs of a pair of singular vectors, the one with which the largest element of "
        "the left one, the first of them, is positive",
        is_open=True,
        remark="either sign; of equal singular values, any vectors that span the same",
    ),
    Tie("multinomial randperm", "the first of equal draws"),
)
"""What every lowering that selects does where several answers are possible."""

NO_CHOICE = """_softmax _log_softmax logsumexp logcumsumexp log_sigmoid_forward binary_cross_entropy
    binary_cross_entropy_backward hypot atan2 normal_functional normal randn randn_like randint
    randint_like embedding_dense_backward std var linalg_qr linalg_matrix_exp"""
"""Operators whose lowerings select a number that is the same whichever is taken."""


def list_operators(names: str) -> list[str]:
    """Return the names of a row."""
    return names.split()


def render_ties() -> str:
    """Return the table in Markdown."""
    rows = []
    for tie in TIES:
        names = ", ".join(f"`{name}`" for name in list_operators(tie.operators))
        kernel = tie.remark or "the same"
        rows.append(f"| {names} | {tie.rule} | {'open: ' if tie.is_open else ''}{kernel} |\n")
    return "".join(rows)
