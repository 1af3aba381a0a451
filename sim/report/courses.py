"""The courses of a results folder's settings: their measures over time, as reports show them."""

from moot.sim.analysis.over_time import COLUMNS, Course, make_course, measure_shares
from moot.sim.report.results import Results


def read_courses(results: Results) -> list[Course]:
    """Return the course of each setting whose runs are done; none without a table of jobs."""
    if not results.runs.num_rows or not results.count_rows("jobs"):
        return []
    rows = results.runs.to_pylist()
    jobs = results.read("jobs", COLUMNS, with_burn_in=True)
    totals = {row["run"]: row["jobs"] + row["burn_in"] for row in rows}
    shares = measure_shares([jobs], totals)
    settings: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        settings.setdefault(tuple(row[key] for key in results.keys), []).append(row)
    return [make_course(done, shares) for done in settings.values()]
