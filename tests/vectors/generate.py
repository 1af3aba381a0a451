"""Makes the vectors anew: `python -m tests.vectors.generate`, from the repository's root.

It refuses to write a result that contradicts an earlier one of the same version.
"""

from collections.abc import Callable, Mapping

from tests.vectors.commitments import make_commitments
from tests.vectors.files import Document, write
from tests.vectors.models import make_cnn, make_functions, make_gpt2, make_mlp, make_narrow_mlp
from tests.vectors.operators import make_operators
from tests.vectors.scalars import make_scalars

ARITHMETIC: Mapping[str, Callable[[], Document]] = {
    "scalars.json": make_scalars,
    "operators.json": make_operators,
    "commitments.json": make_commitments,
}
"""What the arithmetic alone decides."""

CAPTURED: Mapping[str, Callable[[], Document]] = {
    "functions.json": make_functions,
    "mlp.json": make_mlp,
    "mlp-bf16.json": make_narrow_mlp,
    "cnn.json": make_cnn,
    "gpt2.json": make_gpt2,
}
"""What also depends on how torch's operators are lowered."""


def main() -> None:
    """Write every file."""
    for name, make in {**ARITHMETIC, **CAPTURED}.items():
        write(name, make())


if __name__ == "__main__":
    main()
