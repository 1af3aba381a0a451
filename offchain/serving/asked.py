"""Asked: what a request to the endpoint says, read with care.

Parameters that the interface has and this endpoint has not are refused by name, unless they have
the value that changes nothing.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moot.offchain import bounded_json
from moot.offchain.errors import MootError, RequestRefused, UsageError, suggest
from moot.offchain.frontend.generation.answering import Question, Sampling
from moot.offchain.serving.checkpoints import Model
from moot.offchain.text import show_error

MOST_STOPS = 4
MOST_STOP_CHARACTERS = 256
MOST_ODDS = 20
_USUAL_TOKENS = 16
"""Tokens of a completion, as the interface has it, if a request does not say."""

_SHARED = {
    *("model", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop", "stream"),
    *("stream_options", "logprobs", "user"),
}
_KNOWN = {
    True: {*_SHARED, "messages", "max_completion_tokens", "top_logprobs"},
    False: {*_SHARED, "prompt"},
}
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "store": (False,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none",),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "metadata": ({},),
    "service_tier": ("auto", "default"),
}
"""Parameters of the interface that are refused, and the values of them that change nothing."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request.

    Attributes:
        model: who is asked.
        question: what.
        is_chat: whether it is a conversation.
        stops: strings before which the text ends.
        is_stream: whether tokens are sent as they come.
        has_usage: whether a stream says how many tokens there were.
        odds: how many likely tokens are told beside each; None for no odds at all.
    """

    model: Model
    question: Question
    is_chat: bool
    stops: tuple[str, ...]
    is_stream: bool
    has_usage: bool
    odds: int | None


def read_ask(body: bytes, models: Mapping[str, Model], *, is_chat: bool) -> Ask:
    """Return what the body of a request asks.

    Raises:
        RequestRefused: it is no JSON, lacks something, or asks for what there is not.
    """
    fields = _parse(body)
    _check_names(fields, is_chat=is_chat)
    name = _get(fields, "model", str, "")
    if name not in models:
        known = suggest(name, models, "models")
        raise RequestRefused(f"there is no model {name!r}; {known}", "model", 404)
    model = models[name]
    prompt = (_read_chat if is_chat else _read_prompt)(fields, model)
    if not prompt:
        raise RequestRefused("the prompt has no token; give one at least", "prompt")
    room = model.programs.context - len(prompt)
    if room < 1:
        subject = "messages" if is_chat else "prompt"
        raise RequestRefused(
            f"the prompt has {len(prompt)} tokens, and the context {model.programs.context}; "
            "give a shorter one",
            subject,
        )
    name = "max_completion_tokens" if "max_completion_tokens" in fields else "max_tokens"
    most = _get(fields, name, int, None)
    if most is None:
        most = room if is_chat else min(_USUAL_TOKENS, room)
    try:
        question = Question(prompt, most, _read_sampling(fields))
    except UsageError as error:
        raise RequestRefused(error.message, _find_name(error.message)) from error
    options = _get(fields, "stream_options", dict, {})
    return Ask(
        model,
        question,
        is_chat,
        _read_stops(fields),
        _get(fields, "stream", bool, False),
        bool(options.get("include_usage")),
        _read_odds(fields, is_chat=is_chat),
    )


def _parse(body: bytes) -> dict[str, Any]:
    try:
        fields = bounded_json.decode(body)
    except ValueError as error:
        raise RequestRefused(f"the body is no JSON: {show_error(error)}") from error
    if not isinstance(fields, dict):
        raise RequestRefused("the body is no JSON object; send one")
    return {name: value for name, value in fields.items() if value is not None}


def _check_names(fields: Mapping[str, Any], *, is_chat: bool) -> None:
    known = _KNOWN[is_chat]
    for name, value in fields.items():
        if name in known or (name in _NEUTRAL and value in _NEUTRAL[name]):
            continue
        if name in _NEUTRAL:
            usual = " or ".join(map(repr, _NEUTRAL[name]))
            raise RequestRefused(f"{name} is not supported; leave it out, or give {usual}", name)
        advice = suggest(name, known, "parameters")
        raise RequestRefused(f"the parameter {name!r} is not supported; {advice}", name)


def _get(fields: Mapping[str, Any], name: str, kind: Any, usual: Any) -> Any:
    value = fields.get(name, usual)
    if name in fields:
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not is_right:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(it.__name__ for it in kinds)
            raise RequestRefused(f"{name} is a {type(value).__name__}; give a {wanted}", name)
    return value


def _read_sampling(fields: Mapping[str, Any]) -> Sampling:
    numbers = (int, float)
    seed = _get(fields, "seed", int, None)
    return Sampling(
        temperature=float(_get(fields, "temperature", numbers, 1.0)),
        top_k=_get(fields, "top_k", int, 0),
        top_p=float(_get(fields, "top_p", numbers, 1.0)),
        seed=secrets.randbits(63) if seed is None else seed % (1 << 64),
    )


def _find_name(message: str) -> str | None:
    """Return the parameter that a message about settings is about."""
    names = ("temperature", "top_k", "top_p", "seed")
    found = next((name for name in names if name in message.split(" is ", maxsplit=1)[0]), None)
    return found or ("max_tokens" if "answer" in message else None)


def _read_prompt(fields: Mapping[str, Any], model: Model) -> list[int]:
    """Return the tokens of a completion's prompt: a text, or tokens."""
    prompt = fields.get("prompt", "")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return list(model.tokenizer(prompt)["input_ids"])
    is_tokens = isinstance(prompt, list) and all(type(it) is int for it in prompt)
    if not is_tokens:
        raise RequestRefused("the prompt is neither a text nor tokens; give one prompt", "prompt")
    return list(prompt)


def _read_chat(fields: Mapping[str, Any], model: Model) -> list[int]:
    """Return the tokens of a conversation, by the checkpoint's own template."""
    messages = _get(fields, "messages", list, [])
    if not messages:
        raise RequestRefused("there are no messages; give one at least", "messages")
    plain = [_read_message(message) for message in messages]
    if not getattr(model.tokenizer, "chat_template", None):
        raise RequestRefused(
            f"the checkpoint of {model.name} has no chat template; ask /v1/completions", "messages"
        )
    make: Callable[..., Any] = model.tokenizer.apply_chat_template
    try:
        found = make(plain, add_generation_prompt=True, tokenize=True, return_dict=True)
    except MootError:
        raise
    except Exception as error:  # the template is the checkpoint's, and refuses in its own words
        raise RequestRefused(f"the chat template fails: {show_error(error)}", "messages") from error
    return list(found["input_ids"])


def _read_message(message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RequestRefused("a message has no role; give role and content", "messages")
    content = message.get("content")
    if isinstance(content, list):
        parts = [it for it in content if isinstance(it, dict) and it.get("type") == "text"]
        if len(parts) != len(content) or not all(isinstance(it.get("text"), str) for it in parts):
            raise RequestRefused("a message has more than text; give text alone", "messages")
        content = "".join(it["text"] for it in parts)
    if not isinstance(content, str):
        raise RequestRefused("a message has no content; give a text", "messages")
    return {"role": message["role"], "content": content}


def _read_stops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    stops = _get(fields, "stop", (str, list), [])
    stops = [stops] if isinstance(stops, str) else stops
    is_right = all(isinstance(it, str) and 0 < len(it) <= MOST_STOP_CHARACTERS for it in stops)
    if len(stops) > MOST_STOPS or not is_right:
        raise RequestRefused(
            f"stop is one text or up to {MOST_STOPS}, each of 1 to {MOST_STOP_CHARACTERS} "
            "characters; give such",
            "stop",
        )
    return tuple(stops)


def _read_odds(fields: Mapping[str, Any], *, is_chat: bool) -> int | None:
    """Return how many likely tokens are told beside each; None for no odds."""
    if is_chat:
        is_wanted = _get(fields, "logprobs", bool, False)
        count, name = _get(fields, "top_logprobs", int, 0), "top_logprobs"
        if count and not is_wanted:
            raise RequestRefused("top_logprobs needs logprobs; set it", name)
    else:
        count, name = _get(fields, "logprobs", int, None), "logprobs"
        is_wanted = count is not None
    if is_wanted and not 0 <= count <= MOST_ODDS:
        raise RequestRefused(f"{name} is {count}; choose one from 0 to {MOST_ODDS}", name)
    return count if is_wanted else None
