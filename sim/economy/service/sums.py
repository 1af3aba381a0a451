"""Sums over the tables of jobs by receipt: what came of lies, and what calls cost an answer."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]


def sum_receipts(receipts: pa.Table) -> list[Row]:
    """Return what became of the receipts of each strategy, in the order of their names.

    Counted are all; lies; lies that somebody relied on; lies that were challenged; receipts that
    were part of a proof of fault; those that the bond did not cover, with all others that were
    open; those on another chain than the first.

    Args:
        receipts: the table; names may be in dictionaries.
    """
    if not receipts.num_rows:
        return []
    finding = receipts["finding"].cast(pa.string())
    flags = {
        "lies": receipts["is_lie"],
        "relied": pc.and_(receipts["is_lie"], receipts["is_relied"]),
        "found": _match(finding, "lie"),
        "faults": pc.or_(_match(finding, "conflict"), _match(finding, "unlisted")),
        "uncovered": pc.invert(receipts["is_covered"]),
        "forked": pc.greater(receipts["chain"], 0),
    }
    marked = pa.table(
        {"strategy": receipts["strategy"].cast(pa.string()), "lost_gwei": receipts["lost_gwei"]}
        | {name: flag.cast(pa.int64()) for name, flag in flags.items()}
    )
    sums = [(name, "sum") for name in (*flags, "lost_gwei")]
    found = marked.group_by("strategy").aggregate([*sums, ("lost_gwei", "count")])
    rows = [
        {"strategy": row["strategy"], "receipts": row["lost_gwei_count"]}
        | {name: row[f"{name}_sum"] for name, _ in sums}
        for row in found.to_pylist()
    ]
    return sorted(rows, key=lambda row: str(row["strategy"]))


def sum_service(service: pa.Table) -> list[Row]:
    """Return how often each call of the service was made, and what it used, by its name."""
    if not service.num_rows:
        return []
    named = service.set_column(
        service.column_names.index("call"), "call", service["call"].cast(pa.string())
    )
    sums = [("gas", "count"), ("gas", "sum"), ("fees_gwei", "sum")]
    found = named.group_by("call").aggregate(sums).to_pylist()
    rows = [
        {
            "call": row["call"],
            "calls": row["gas_count"],
            "gas": row["gas_sum"],
            "fees_gwei": row["fees_gwei_sum"],
        }
        for row in found
    ]
    return sorted(rows, key=lambda row: str(row["call"]))


def _match(names: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return where a name stands; not where there is none."""
    return pc.fill_null(pc.equal(names, name), False)
