"""Answers about markets, as Python gets them: plain values, and pages with plots."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from moot.display import Displayable, make_frame
from moot.sim.analysis.design import Design as Designed
from moot.sim.analysis.design import Finalist
from moot.sim.analysis.sensitivity import Sensitivity as Explained
from moot.sim.estimates import Estimate


@dataclass(frozen=True, slots=True)
class Twins(Displayable):
    """What attackers bring themselves and others, beside the same agents being honest.

    Attributes:
        attackers: their strategies.
        reps: how often the market and its twin were played.
        found: by the name of a measure, such as `gain_eth_per_job`, its mean and interval: those
            of the two beside each other, and all that `moot answers measures` lists of the attack.

    Example:
        >>> import moot
        >>> twins = moot.twins("weak-audit", strategy="lazy", reps=2, jobs=60)
        >>> twins.attackers, twins.found["gain_eth_per_job"].low is not None
        (('lazy',), True)
    """

    attackers: tuple[str, ...]
    reps: int
    found: Mapping[str, Estimate]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        told = {name: asdict(estimate) for name, estimate in self.found.items()}
        return {"attackers": list(self.attackers), "reps": self.reps} | told


@dataclass(frozen=True, slots=True)
class Sensitivity(Displayable):
    """What decides a market: Sobol indices of keys, and of chance.

    Attributes:
        market: its name.
        found: the indices, by measure.
        warnings: sentences about what did not happen as it was asked for: the rate of audits.

    Example:
        >>> import moot
        >>> told = moot.sensitivity("weak-audit", {"bond.eth": (0.1, 2)}, samples=8, jobs=40)
        >>> [it["key"] for it in told.to_dict()["measures"]["wrong_share"]["indices"]]
        ['bond.eth', 'chance']
    """

    market: str
    found: Explained
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot answers sensitivity --json` prints."""
        found = self.found
        measures = {
            it.measure: {
                "mean": it.mean,
                "deviation": it.deviation,
                "indices": [asdict(index) for index in it.indices],
            }
            for it in found.explained
        }
        return {
            "keys": list(found.keys),
            "samples": found.samples,
            "resamples": found.resamples,
            "markets": found.markets,
            "played": found.played,
            "measures": measures,
            "warnings": list(self.warnings),
        }

    def make_page(self) -> str:
        """Return one HTML file with plots, which asks nothing of the network."""
        from moot.sim.report.answers import make_sensitivity_page  # noqa: PLC0415 - imports plotly

        return make_sensitivity_page(self.found, self.market)

    def _repr_html_(self) -> str:
        return make_frame(self.make_page())


@dataclass(frozen=True, slots=True)
class Design(Displayable):
    """What a search for a design has found.

    Attributes:
        market: its name.
        found: all designs that were tried, and those that were played again.
        warnings: sentences about what did not happen as it was asked for: the rate of audits.

    Example:
        >>> import moot
        >>> ranges = {"audit.rate": (0.0, 0.5)}
        >>> design = moot.design(
        ...     "weak-audit", ranges, minimize="wrong_share", trials=8, reps=1, fresh=2, jobs=40
        ... )
        >>> design.values["audit.rate"] <= 0.5, len(design.found.tried) <= 8
        (True, True)
    """

    market: str
    found: Designed
    warnings: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """The values of the best design, by their keys: `set` of `moot.simulate`; or none."""
        best = self.found.best
        return {} if best is None else dict(zip(self.found.keys, best.point, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot answers design --json` prints."""
        found = self.found
        return {
            "goal": asdict(found.goal),
            "limits": [it.describe() for it in found.limits],
            "reps": found.reps,
            "fresh": found.fresh,
            "played": found.played,
            "best": None if found.best is None else self._tell(found.best),
            "binding": found.binding or None,
            "finalists": [self._tell(it) for it in found.finalists],
            "configured": self._tell(found.configured),
            "tried": [
                {
                    "values": dict(zip(found.keys, it.point, strict=True)),
                    "means": dict(it.means),
                    "margins": dict(it.margins),
                    "meets_all": all(it.exceed(limit) <= 0 for limit in found.limits),
                }
                for it in found.tried
            ],
            "warnings": list(self.warnings),
        }

    def _tell(self, one: Finalist) -> dict[str, Any]:
        limits = [it.describe() for it in self.found.limits]
        return {
            "values": dict(zip(self.found.keys, one.point, strict=False)),
            "searched": one.searched,
            "measures": {name: asdict(it) for name, it in one.found.items()},
            "limits": dict(zip(limits, one.verdicts, strict=True)),
        }

    def make_page(self) -> str:
        """Return one HTML file with plots, which asks nothing of the network."""
        from moot.sim.report.answers import make_design_page  # noqa: PLC0415 - imports plotly

        return make_design_page(self.found, self.market)

    def _repr_html_(self) -> str:
        return make_frame(self.make_page())
