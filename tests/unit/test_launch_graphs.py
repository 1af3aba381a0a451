"""Estimates of steps whose launches run side by side."""

import pytest

from docs.tools.launch_graphs import COLUMNS, LAYOUTS, Cost, main, run


@pytest.mark.parametrize(
    ("wholes", "edges", "expected"),
    [
        ((1, 1), [[], []], (2, 2)),
        ((2, 2), [[], []], (2, 4)),
        ((1.5, 1.5), [[], []], (2, 3)),
        ((1, 1), [[], [0]], (4, 4)),
        ((2, 1, 1), [[], [], [1]], (4, 5)),
    ],
)
def test_tasks_share_a_device(
    wholes: tuple[float, ...], edges: list[list[int]], expected: tuple[float, float]
) -> None:
    """Those that want less than there is take as long as alone, and others in proportion more."""
    assert run([Cost(2, whole) for whole in wholes], edges) == pytest.approx(expected)


def test_a_program_has_a_row_for_each_layout(capsys: pytest.CaptureFixture[str]) -> None:
    """No chain is longer than all tasks, and these take no less side by side than a chain."""
    main("mlp", "tiny")
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == f"| {' | '.join(COLUMNS)} |"
    assert len(rows) == len(LAYOUTS)
    for row in rows:
        line, chain, busy, waiting = map(float, row.strip("| ").split(" | ")[3:])
        assert chain <= waiting <= busy <= line
