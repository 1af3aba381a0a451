"""Metrics: what engines have done, as text that Prometheus reads."""

from collections.abc import Callable, Mapping

from moot.offchain.serving.engine import Engine

_Read = Callable[[Engine], float]

_METRICS: Mapping[str, tuple[str, str, _Read]] = {
    "moot_answers_total": ("counter", "Answers.", lambda it: it.counts.answers),
    "moot_cancelled_total": (
        "counter",
        "Requests that were cancelled or took too long.",
        lambda it: it.counts.cancelled,
    ),
    "moot_failed_total": (
        "counter",
        "Requests that the engine failed at.",
        lambda it: it.counts.failed,
    ),
    "moot_prompt_tokens_total": (
        "counter",
        "Tokens of prompts.",
        lambda it: it.counts.prompt_tokens,
    ),
    "moot_known_tokens_total": (
        "counter",
        "Tokens of prompts that were read before.",
        lambda it: it.counts.known_tokens,
    ),
    "moot_answer_tokens_total": (
        "counter",
        "Tokens of answers.",
        lambda it: it.counts.answer_tokens,
    ),
    "moot_turns_total": ("counter", "Turns of the engine.", lambda it: it.counts.turns),
    "moot_hashing_seconds_total": (
        "counter",
        "Seconds for the roots of answers.",
        lambda it: it.counts.hashing_s,
    ),
    "moot_active": ("gauge", "Texts in work.", lambda it: it.active),
    "moot_waiting": ("gauge", "Requests that wait for a slot.", lambda it: it.waiting),
}


def write(engines: Mapping[str, Engine]) -> str:
    """Return all metrics of engines by their models' names."""
    lines = []
    for name, (kind, about, read) in _METRICS.items():
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for model, engine in engines.items():
            label = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            lines.append(f'{name}{{model="{label}"}} {read(engine):g}')
    return "\n".join(lines) + "\n"
