"""Replies: what the endpoint says, in the forms of the interface."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moot.offchain.errors import RequestRefused
from moot.offchain.serving.answered import Answered
from moot.offchain.serving.asked import Ask
from moot.offchain.serving.checkpoints import Model
from moot.offchain.serving.speech import Odds

HEADER = "Moot-Receipt"
"""The header that a receipt is in."""

_TYPES = {404: "not_found_error", 429: "rate_limit_error"}


def make_error(error: RequestRefused) -> dict[str, Any]:
    """Return what is said to a request that is refused."""
    kind = _TYPES.get(error.status)
    if kind is None:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.parameter,
            "code": "model_not_found" if error.status == 404 else None,
        }
    }


def make_model(model: Model) -> dict[str, Any]:
    """Return what is said of a model."""
    return {"id": model.name, "object": "model", "created": 0, "owned_by": "moot", **model.about}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what is said.
        odds: the odds of the tokens that came since the last part, if they were asked for.
    """

    text: str
    odds: Sequence[Odds] = ()


@dataclass(frozen=True)
class Form:
    """The form of the replies to one request.

    Attributes:
        ask: the request.
        name: the name of the answer.
        created: when it came, in seconds since 1970.
    """

    ask: Ask
    name: str
    created: int = field(default_factory=lambda: int(time.time()))

    def make_whole(self, piece: Piece, answered: Answered, receipt: str | None) -> dict[str, Any]:
        """Return a whole answer."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": str(answered.reason)}
        choice["logprobs"] = self._show_odds(piece)
        if self.ask.is_chat:
            choice["message"] = {"role": "assistant", "content": piece.text, "refusal": None}
        else:
            choice["text"] = piece.text
        return self._make("chat.completion", choice, answered, receipt)

    def make_part(self, piece: Piece, *, is_first: bool) -> dict[str, Any]:
        """Return a part of a stream."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        choice["logprobs"] = self._show_odds(piece)
        if self.ask.is_chat:
            choice["delta"] = {"content": piece.text}
            if is_first:
                choice["delta"]["role"] = "assistant"
        else:
            choice["text"] = piece.text
        return self._make("chat.completion.chunk", choice, None, None)

    def make_end(self, answered: Answered, receipt: str | None) -> dict[str, Any]:
        """Return the last part of a stream, which has the receipt."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": str(answered.reason)}
        choice |= {"delta": {"content": ""}} if self.ask.is_chat else {"text": ""}
        choice["logprobs"] = None
        return self._make("chat.completion.chunk", choice, None, receipt)

    def make_usage(self, answered: Answered) -> dict[str, Any]:
        """Return the part of a stream after the last one that says how many tokens there were."""
        made = self._make("chat.completion.chunk", {}, answered, None)
        return {**made, "choices": []}

    def _make(
        self,
        kind: str,
        choice: Mapping[str, Any],
        answered: Answered | None,
        receipt: str | None,
    ) -> dict[str, Any]:
        made: dict[str, Any] = {
            "id": self.name,
            "object": kind if self.ask.is_chat else "text_completion",
            "created": self.created,
            "model": self.ask.model.name,
            "system_fingerprint": None,
            "choices": [choice],
        }
        if answered is not None:
            asked, told = len(answered.question.prompt), len(answered.tokens)
            made["usage"] = {
                "prompt_tokens": asked,
                "completion_tokens": told,
                "total_tokens": asked + told,
            }
        if receipt is not None:
            made["receipt"] = receipt
        return made

    def _show_odds(self, piece: Piece) -> dict[str, Any] | None:
        if self.ask.odds is None:
            return None
        decode = self.ask.model.tokenizer.decode
        if self.ask.is_chat:
            content = [
                {
                    **_show(decode, it.token, it.log),
                    "top_logprobs": [_show(decode, *b) for b in it.best],
                }
                for it in piece.odds
            ]
            return {"content": content, "refusal": None}
        return {
            "tokens": [decode([it.token]) for it in piece.odds],
            "token_logprobs": [it.log for it in piece.odds],
            "top_logprobs": [{decode([t]): log for t, log in it.best} for it in piece.odds],
            "text_offset": [],
        }


def _show(decode: Any, token: int, log: float) -> dict[str, Any]:
    text: str = decode([token])
    return {"token": text, "logprob": log, "bytes": list(text.encode())}


def make_event(content: Mapping[str, Any]) -> bytes:
    """Return an event of a stream."""
    return b"data: " + json.dumps(content).encode() + b"\n\n"


END = b"data: [DONE]\n\n"
"""The end of a stream."""
