"""The whole table: subject -> rows, and the recorded line of each row that is refused."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.corpus import (
    activations,
    complex_numbers,
    elementwise,
    functionals,
    indexing,
    layers,
    linear_algebra,
    losses,
    modules,
    optimizers,
    pooling,
    recurrent,
    reductions,
    sampling,
)
from tests.corpus.practice import PROGRAMS
from tests.corpus.rows import Row, infer_all

TRAINED: Mapping[str, tuple[Row, ...]] = {
    "layers": layers.ROWS,
    "activations and norms": activations.ROWS,
    "losses": losses.ROWS,
    "pooling, padding, resizing": pooling.ROWS,
    "recurrent layers": recurrent.ROWS,
    "element by element": elementwise.ROWS,
    "reductions and sorting": reductions.ROWS,
    "indexing and arranging": indexing.ROWS,
    "linear algebra": linear_algebra.ROWS,
    "complex numbers": complex_numbers.ROWS,
    "random numbers": sampling.ROWS,
    "modules": modules.ROWS,
    "functionals": functionals.ROWS,
    "optimizers": optimizers.ROWS,
}

SUBJECTS: Mapping[str, tuple[Row, ...]] = {
    **TRAINED,
    "inference": infer_all(row for rows in TRAINED.values() for row in rows),
}

ROWS: Mapping[str, Row] = {
    f"{subject}: {row.name}": row for subject, rows in SUBJECTS.items() for row in rows
}

NAMES = frozenset(ROWS) | frozenset(PROGRAMS)
"""The names of all rows, and of all programs of practice."""

RECORD = Path(__file__).with_name("refusals.json")

REFUSALS: Mapping[str, str] = json.loads(RECORD.read_text())
"""Name of a refused row or program -> the line that refuses it, without its place in a file."""
