"""The table of assumptions: every number that a market begins with is in it, with a reason."""

from pathlib import Path

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, Group, show_config
from moot.sim.experiments import assumptions
from moot.sim.experiments.assumptions import (
    BASES,
    FILE,
    list_assumptions,
    list_defaults,
    read_reasons,
)


def list_numbers(values: object, place: str = "") -> list[str]:
    """Return the keys of all numbers of a configuration, but those inside groups of agents."""
    if isinstance(values, dict):
        return [key for name in values for key in list_numbers(values[name], f"{place}.{name}")]
    return [place[1:]] if type(values) in (int, float) else []


def test_every_number_is_in_the_table() -> None:
    """Each default of a configuration, of a group and of the usual rules is a row."""
    rows = {row.key: row for row in list_assumptions()}
    plain = show_config(Config())
    assert set(list_numbers(plain)) <= set(rows)
    for name in Group.__struct_fields__:
        if type(getattr(Group("honest"), name)) in (int, float):
            assert rows[f"providers.*.{name}"].default == getattr(Group("honest"), name)
    assert rows["bond.eth (constant)"].default == 1
    assert rows["providers.opportunist.prior"].default == 0.5
    assert len(rows) == len(list_defaults()) > 60


def test_presets_that_differ_are_named() -> None:
    """A row has the values of the presets that have another than the default, and no others."""
    rows = {row.key: row for row in list_assumptions()}
    assert rows["audit.rate (constant)"].presets == {"played": "0.0", "weak-audit": "0.01"}
    assert rows["chain.fee_cap"].presets == {}
    assert rows["providers.*.count"].presets["weak-audit"] == "honest 12, lazy 4, opportunist 4"


def test_each_reason_says_something() -> None:
    """What a row rests on is a word of the list, and what is sourced says where."""
    for row in list_assumptions():
        assert row.reason.basis in BASES
        assert len(row.reason.why.split()) > 1 or row.reason.why == "likewise", row.key
        assert row.reason.basis != "sourced" or "https://" in row.reason.why, row.key


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('["seats"]', '["seat"]'), "no reason for seats"),
        (('["seats"]', '["other"]\nbasis = "size"\nwhy = "so"\n["seats"]'), "for other"),
        (('basis = "neutral"', 'basis = "netural"'), "did you mean 'neutral'"),
        (('why = "one provider', 'why = " "\n# "one provider'), "does not say why seats"),
    ],
)
def test_a_table_with_a_hole_is_refused(
    change: tuple[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number without a reason, a reason without a number, and an unknown basis are refused."""
    path = tmp_path / FILE.name
    path.write_text(FILE.read_text().replace(*change, 1))
    monkeypatch.setattr(assumptions, "FILE", path)
    with pytest.raises(UsageError, match=says):
        list_assumptions()
    read_reasons(FILE)
