"""The wording of findings, which all verbs share."""

from typing import Any


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
    claimed, correct = scalar.get("words") or (scalar["claimed"], scalar["correct"])
    return f"{scalar['function']}({operands}) = {correct}, claimed {claimed}"
