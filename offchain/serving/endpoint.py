"""Endpoint: models behind the interface that clients of OpenAI's speak, over HTTP."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from eth_utils.address import is_hex_address, to_checksum_address
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Call
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from moot.contracts.model.types import NOBODY
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import BondExhausted, MootError, RequestRefused
from moot.offchain.serving import metrics, replies
from moot.offchain.serving.answered import Answered, Issuer
from moot.offchain.serving.asked import Ask, read_ask
from moot.offchain.serving.checkpoints import Model
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.replies import Form, Piece
from moot.offchain.serving.requests import Request
from moot.offchain.serving.speech import Odds, Speech, find_odds

CLIENT = "Moot-Client"
"""The header by which a client says its address, to which its receipts are."""

_Item = Piece | Answered | MootError | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of what strangers send.

    Attributes:
        body_bytes: the longest body.
        body_s: seconds in which it has to come.
    """

    body_bytes: int = 1 << 20
    body_s: float = 20.0


class _Dialogue:
    """A request in an engine, whose parts come out on the event loop as they are made."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._speech = ask, Speech(ask.model.tokenizer, ask.stops)
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[_Item] = asyncio.Queue()
        self._odds: list[Odds] = []
        self.request = Request(ask.question, self._take, self._end, ask.model.ends)

    def _take(self, token: int, logits: Array) -> bool:
        """Say what a token adds; called by the engine."""
        if self._ask.odds is not None:
            self._odds.append(find_odds(token, logits, self._ask.odds))
        text = self._speech.hear(token)
        if text:
            self._put(self._make_piece(text))
        return self._speech.is_stopped

    def _end(self, result: Answered | MootError | None) -> None:
        """Say the rest; called by the engine."""
        rest = self._speech.finish()
        if rest or self._odds:
            self._put(self._make_piece(rest))
        self._put(result)

    def _make_piece(self, text: str) -> Piece:
        odds, self._odds = tuple(self._odds), []
        return Piece(text, odds)

    def _put(self, item: _Item) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def listen(self) -> AsyncIterator[Piece | Answered]:
        """Yield parts, and the answer last; whoever stops listening cancels the request.

        Raises:
            MootError: the engine has failed, or took too long.
        """
        try:
            while True:
                item = await self._items.get()
                if isinstance(item, MootError):
                    raise item
                if item is None:
                    raise RequestRefused("the request was cancelled; ask again", None, 499)
                yield item
                if isinstance(item, Answered):
                    return
        finally:
            self.request.is_cancelled = True


class Endpoint:
    """The endpoint of some models.

    Args:
        models: the models, each with its engine.
        issuer: signs receipts, and keeps answers; None for answers without.
        bounds: the bounds of what is sent.
    """

    def __init__(
        self,
        models: Sequence[tuple[Model, Engine]],
        issuer: Issuer | None = None,
        bounds: Bounds = Bounds(),
    ) -> None:
        self._models = {model.name: model for model, _ in models}
        self._engines = {model.name: engine for model, engine in models}
        self._issuer, self._bounds = issuer, bounds
        # One thread each: tokenizers are not to be used by two, and a book writes in turns.
        self._reading, self._issuing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    def make_app(self) -> Starlette:
        """Return the application that a server runs."""
        routes = [
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{name:path}", self._show_model),
            Route("/v1/receipts/{name}", self._show_receipt),
            Route("/metrics", self._show_metrics),
            Route("/health", self._show_health),
        ]
        return Starlette(
            routes=routes,
            exception_handlers={
                MootError: _refuse,
                404: _find_nothing,
                405: _find_nothing,
            },
            lifespan=self._run,
        )

    @asynccontextmanager
    async def _run(self, _app: Starlette) -> AsyncIterator[None]:
        """Run the engines while the server runs."""
        for engine in self._engines.values():
            engine.start()
        try:
            yield
        finally:
            for engine in self._engines.values():
                await asyncio.to_thread(engine.stop)
            self._reading.shutdown()
            self._issuing.shutdown()

    async def _complete(self, call: Call) -> Response:
        return await self._answer(call, is_chat=False)

    async def _chat(self, call: Call) -> Response:
        return await self._answer(call, is_chat=True)

    async def _answer(self, call: Call, *, is_chat: bool) -> Response:
        client = _read_client(call)
        body = await self._read_body(call)
        loop = asyncio.get_running_loop()
        ask = await loop.run_in_executor(
            self._reading, lambda: read_ask(body, self._models, is_chat=is_chat)
        )
        dialogue = _Dialogue(ask)
        self._engines[ask.model.name].submit(dialogue.request)
        key = secrets.token_hex(16)
        form = Form(ask, f"{'chatcmpl' if is_chat else 'cmpl'}-{key}")
        if ask.is_stream:
            stream = self._stream(form, dialogue, key, client)
            return StreamingResponse(stream, media_type="text/event-stream")
        whole = asyncio.ensure_future(self._collect(dialogue))
        watch = asyncio.ensure_future(_wait_until_gone(call))
        try:
            await asyncio.wait([whole, watch], return_when=asyncio.FIRST_COMPLETED)
            if not whole.done():
                return Response(status_code=499)
            piece, answered = whole.result()
        finally:
            dialogue.request.is_cancelled = True
            for task in (whole, watch):
                task.cancel()
        receipt = await self._issue(ask, answered, key, client)
        headers = {} if receipt is None else {replies.HEADER: receipt}
        return JSONResponse(form.make_whole(piece, answered, receipt), headers=headers)

    async def _collect(self, dialogue: _Dialogue) -> tuple[Piece, Answered]:
        """Return the whole text, and the answer."""
        pieces: list[Piece] = []
        async for item in dialogue.listen():
            if isinstance(item, Answered):
                odds = [odds for piece in pieces for odds in piece.odds]
                return Piece("".join(piece.text for piece in pieces), odds), item
            pieces.append(item)
        raise AssertionError("an answer ends")

    async def _stream(
        self, form: Form, dialogue: _Dialogue, key: str, client: str
    ) -> AsyncIterator[bytes]:
        """Yield the events of an answer."""
        is_first = True
        try:
            async for item in dialogue.listen():
                if isinstance(item, Piece):
                    yield replies.make_event(form.make_part(item, is_first=is_first))
                    is_first = False
                    continue
                receipt = await self._issue(form.ask, item, key, client)
                yield replies.make_event(form.make_end(item, receipt))
                if form.ask.has_usage:
                    yield replies.make_event(form.make_usage(item))
        except MootError as error:
            yield replies.make_event(replies.make_error(_as_refusal(error)))
        yield replies.END

    async def _issue(self, ask: Ask, answered: Answered, key: str, client: str) -> str | None:
        """Return the receipt of an answer, once it and the answer are kept."""
        if self._issuer is None:
            return None
        given = answered, client, key, ask.model.name
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._issuing, self._issuer.issue, *given)

    async def _read_body(self, call: Call) -> bytes:
        """Return the body of a request, unless it is too long, or too slow."""
        parts, count = [], 0
        try:
            async with asyncio.timeout(self._bounds.body_s):
                async for part in call.stream():
                    parts.append(part)
                    count += len(part)
                    if count > self._bounds.body_bytes:
                        raise RequestRefused(
                            f"the body has more than {self._bounds.body_bytes:,} bytes; ask less",
                            None,
                            413,
                        )
        except TimeoutError as error:
            seconds = f"{self._bounds.body_s:g} s"
            raise RequestRefused(f"the body did not come in {seconds}", None, 408) from error
        except ClientDisconnect as error:
            raise RequestRefused("the client is gone", None, 499) from error
        return b"".join(parts)

    async def _list_models(self, _call: Call) -> Response:
        data = [replies.make_model(model) for model in self._models.values()]
        return JSONResponse({"object": "list", "data": data})

    async def _show_model(self, call: Call) -> Response:
        name = call.path_params["name"]
        if name not in self._models:
            raise RequestRefused(f"there is no model {name!r}; see /v1/models", "model", 404)
        return JSONResponse(replies.make_model(self._models[name]))

    async def _show_receipt(self, call: Call) -> Response:
        name = call.path_params["name"].rpartition("-")[2]
        found = None
        if self._issuer is not None:
            found = await asyncio.to_thread(self._issuer.find, name)
        if found is None:
            raise RequestRefused("there is no such receipt; give the id of an answer", "id", 404)
        return Response(found, media_type="application/json")

    async def _show_metrics(self, _call: Call) -> Response:
        return PlainTextResponse(metrics.write(self._engines))

    async def _show_health(self, _call: Call) -> Response:
        return JSONResponse({"status": "ok"})


def _read_client(call: Call) -> str:
    """Return the address to which a receipt is."""
    text = call.headers.get(CLIENT)
    if text is None:
        return NOBODY
    if not is_hex_address(text):
        raise RequestRefused(f"{CLIENT} is no address; give 0x and 40 digits", CLIENT)
    return to_checksum_address(text)


async def _wait_until_gone(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


def _as_refusal(error: MootError) -> RequestRefused:
    if isinstance(error, RequestRefused):
        return error
    return RequestRefused(str(error), None, 503 if isinstance(error, BondExhausted) else 500)


async def _refuse(_call: Call, error: Exception) -> Response:
    assert isinstance(error, MootError)
    refusal = _as_refusal(error)
    headers = {"Connection": "close"} if refusal.status in {408, 413} else {}
    return JSONResponse(replies.make_error(refusal), refusal.status, headers)


async def _find_nothing(call: Call, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = f"there is no {call.method} {call.url.path}; see docs/how-to/serve.md"
    return JSONResponse(replies.make_error(RequestRefused(message, None, status)), status)
