"""The wording of findings, which all verbs share."""

from typing import Any

from moot.offchain.arithmetic.exact import sums

_DIGITS = 18
"""Characters of the bits of the widest element."""


def describe_capture(*, is_compared: bool) -> str:
    """Return whether the program was compared with eager torch before it was run."""
    if is_compared:
        return "capture: the first steps agree with eager torch"
    return "capture: trusted, the program was not compared with eager torch (--trust-capture)"


def describe_place(located: dict[str, Any]) -> str:
    """Return where a dispute ended, as deep as it went; empty when it found no operator."""
    operator = located["operator"]
    if operator is None:
        return ""
    parts = [f"step {located['step']}", f"operator {operator['name']} ({operator['kind']})"]
    if located["element"] is not None:
        parts.append(f"element {located['element']}")
    if located["fold_index"] is not None:
        parts.append(f"fold step {located['fold_index']}")
    return ", ".join(parts)


def describe_scalar(scalar: dict[str, Any]) -> str:
    """Return the scalar operation that decided."""
    operands = ", ".join(scalar["operands"])
    correct, claimed = (_shorten(scalar[key]) for key in ("correct", "claimed"))
    return f"{scalar['function']}({operands}) = {correct}, claimed {claimed}"


def _shorten(bits: str) -> str:
    """Return the bits of an element as they are, and an exact sum as a number."""
    return bits if len(bits) <= _DIGITS else f"the exact sum {sums.to_float(int(bits, 16))!r}"
