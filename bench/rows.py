"""The rows of a benchmark, their geometric means, and the JSON object of both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of two sides.

    Attributes:
        group: what it counts to.
        name: what was computed.
        shape: on what.
        threads: threads of each side.
        ours_s: seconds of ours.
        stock_s: seconds of stock torch.
        extra: what the group measures besides.
    """

    group: str
    name: str
    shape: str
    threads: int
    ours_s: float
    stock_s: float
    extra: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """The ratio of stock torch's time to ours."""
        return self.stock_s / self.ours_s

    def to_json(self) -> dict[str, Any]:
        """Return the row as a flat object."""
        found = {key: value for key, value in asdict(self).items() if key != "extra"}
        return found | {"ratio": self.ratio} | dict(self.extra)


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the object of all rows: with the geometric mean, of everything and of each group."""
    groups = dict.fromkeys(row.group for row in rows)
    return {
        "rows": [row.to_json() for row in rows],
        "geometric_mean": mean_of(row.ratio for row in rows),
        "groups": {
            group: {
                "geometric_mean": mean_of(row.ratio for row in rows if row.group == group),
                "least": min(row.ratio for row in rows if row.group == group),
            }
            | _summarise_best([row for row in rows if row.group == group])
            for group in groups
        },
    }


def _summarise_best(rows: Sequence[Row]) -> dict[str, float]:
    ratios = [row.extra["best_ratio"] for row in rows if "best_ratio" in row.extra]
    return {"best_geometric_mean": mean_of(ratios)} if ratios else {}


def mean_of(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    return geometric_mean(list(ratios))
