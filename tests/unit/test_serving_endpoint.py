"""The endpoint, as the official client and strangers see it."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from moot.offchain.errors import CannotTranslate, RequestRefused
from moot.offchain.frontend.generation.answering import Question, Sampling
from moot.offchain.serving import server
from moot.offchain.serving.asked import read_ask
from moot.offchain.serving.checking import check_answer
from moot.offchain.serving.checkpoints import Model, load_all
from moot.offchain.serving.endpoint import Bounds
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.speech import Speech
from tests.serving_checkpoints import Stamps, make_checkpoint, make_client, serving

MESSAGES = [{"role": "user", "content": "the hat"}]
SAMPLED = {"model": "tiny", "max_tokens": 8, "temperature": 0.7, "seed": 3}

Served = tuple[str, Model, Engine, Stamps, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a tiny checkpoint, and the official client of it."""
    folder = make_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    stamps = Stamps()
    bounds = Bounds(body_bytes=1 << 14, body_s=1.0)
    with (
        serving(folder, stamps, bounds) as (url, *rest),
        make_client(url) as client,
    ):
        yield url, *rest, stamps, client


def wait_until_idle(engine: Engine) -> None:
    """Wait until no text is in work."""
    ends = time.monotonic() + 30
    while engine.active or engine.waiting:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_completion_has_a_receipt_that_checks(served: Served) -> None:
    """An answer has its receipt in a header, a field and a document, whose claim is right."""
    url, model, _, stamps, client = served
    raw = client.completions.with_raw_response.create(prompt="the cat", **SAMPLED)
    said = raw.parse()
    assert raw.headers["moot-receipt"] == said.receipt
    document = requests.get(f"{url}/v1/receipts/{said.id}", timeout=9).json()
    assert document["receipt"] == said.receipt
    answered = stamps.issued[int(said.receipt.split("-")[1])][0]
    asked = document["request"]
    sampling = Sampling(*(asked[it] for it in ("temperature", "top_k", "top_p", "seed")))
    question = Question(asked["prompt"], asked["max_tokens"], sampling)
    wrong, again = check_answer(model.programs, question, document["answer"], answered.reason)
    assert wrong is None
    assert again == answered
    assert again.end_root.hex() == document["end"]
    assert said.choices[0].text == model.tokenizer.decode(document["answer"])
    assert said.usage.completion_tokens == len(document["answer"])


def test_a_seed_says_the_same_again(served: Served) -> None:
    """One seed gives one text, whole or as a stream; another seed gives another."""
    *_, client = served
    said = [
        client.completions.create(prompt="the cat", **{**SAMPLED, "seed": seed}).choices[0].text
        for seed in (3, 3, 4)
    ]
    assert said[0] == said[1] != said[2]
    parts = list(client.completions.create(prompt="the cat", stream=True, **SAMPLED))
    assert "".join(part.choices[0].text for part in parts) == said[0]


def test_a_stream_ends_with_its_receipt(served: Served) -> None:
    """The last event has the reason and the receipt; usage follows where it was asked for."""
    *_, stamps, client = served
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        messages=MESSAGES, stream=True, stream_options=options, logprobs=True, **SAMPLED
    )
    *parts, last, usage = list(stream)
    assert usage.usage.completion_tokens == len(stamps.issued[-1][0].tokens)
    assert last.choices[0].finish_reason in {"stop", "length"}
    assert last.receipt == f"receipt-{len(stamps.issued) - 1}"
    assert parts[0].choices[0].delta.role == "assistant"
    odds = [it for part in parts for it in part.choices[0].logprobs.content]
    assert len(odds) == usage.usage.completion_tokens
    whole = client.chat.completions.create(messages=MESSAGES, **SAMPLED)
    text = "".join(part.choices[0].delta.content for part in parts)
    assert text == whole.choices[0].message.content


def test_a_stop_string_ends_a_text_before_it(served: Served) -> None:
    """The text ends before a stop string, and the answer commits to what was computed."""
    *_, stamps, client = served
    asked = {**SAMPLED, "max_tokens": 24, "temperature": 0}
    whole = client.completions.create(prompt="the cat", **asked).choices[0].text
    stop = whole[3:5]
    said = client.completions.create(prompt="the cat", stop=[stop, "never"], **asked)
    assert said.choices[0].text == whole[: whole.index(stop)]
    assert said.choices[0].finish_reason == "stop"
    assert len(stamps.issued[-1][0].tokens) < len(stamps.issued[-2][0].tokens)


def test_models_metrics_and_health(served: Served) -> None:
    """Models are listed, and the metrics count answers."""
    url, model, engine, _, client = served
    assert [it.id for it in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").context == model.programs.context
    metrics = requests.get(f"{url}/metrics", timeout=9).text
    assert f'moot_answers_total{{model="tiny"}} {engine.counts.answers}' in metrics
    assert requests.get(f"{url}/health", timeout=9).json() == {"status": "ok"}


REFUSED: dict[str, tuple[dict[str, Any], int, str | None, str]] = {
    "several": ({"n": 2}, 400, "n", "leave it out, or give 1"),
    "tools": ({"tools": [{"type": "function"}]}, 400, "tools", "not supported"),
    "penalty": ({"presence_penalty": 0.5}, 400, "presence_penalty", "or give 0"),
    "unknown": ({"temprature": 1}, 400, "temprature", "did you mean 'temperature'"),
    "model": ({"model": "tinny"}, 404, "model", "did you mean 'tiny'"),
    "temperature": ({"temperature": -1}, 400, "temperature", "from 0 to 100"),
    "top_p": ({"top_p": 0}, 400, "top_p", "above 0"),
    "top_k": ({"top_k": 99}, 400, "top_k", "up to 64"),
    "text": ({"temperature": "warm"}, 400, "temperature", "give a int or float"),
    "none": ({"max_tokens": 0}, 400, "max_tokens", "ask for one at least"),
    "much": ({"max_tokens": 64}, 400, "max_tokens", "ask for less"),
    "long": ({"prompt": "cat" * 99}, 400, "prompt", "give a shorter one"),
    "empty": ({"prompt": ""}, 400, "prompt", "give one at least"),
    "stranger": ({"prompt": [1, 9999]}, 400, "prompt", "are 0 to 269"),
    "floats": ({"prompt": [1.5]}, 400, "prompt", "neither a text nor tokens"),
    "stops": ({"stop": ["a"] * 5}, 400, "stop", "up to 4"),
    "odds": ({"logprobs": 21}, 400, "logprobs", "from 0 to 20"),
    "body": ({"prompt": "x" * (1 << 14)}, 413, None, "ask less"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_by_name(served: Served, name: str) -> None:
    """A request that can't be answered is told why in the interface's own form."""
    url, changes = served[0], REFUSED[name][0]
    asked = {"prompt": "the cat", **SAMPLED, **changes}
    reply = requests.post(f"{url}/v1/completions", json=asked, timeout=9)
    error = reply.json()["error"]
    _, status, parameter, message = REFUSED[name]
    assert reply.status_code == status
    assert error["param"] == parameter
    assert message in error["message"]


CHATS: dict[str, tuple[Any, str]] = {
    "nothing": ([], "no messages"),
    "no role": ([{"content": "x"}], "give role and content"),
    "a picture": ([{"role": "user", "content": [{"type": "image_url"}]}], "give text alone"),
}


@pytest.mark.parametrize("name", CHATS)
def test_conversations_of_more_than_text_are_refused(served: Served, name: str) -> None:
    """Messages have roles and texts."""
    messages, message = CHATS[name]
    asked = {"messages": messages, **SAMPLED}
    reply = requests.post(f"{served[0]}/v1/chat/completions", json=asked, timeout=9)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages")
    assert message in reply.json()["error"]["message"]


def test_neutral_values_are_taken(served: Served) -> None:
    """Parameters that change nothing are taken, and absent ones may be null."""
    *_, client = served
    asked = {**SAMPLED, "n": 1, "presence_penalty": 0, "stop": None, "user": "me"}
    assert client.completions.create(prompt="the cat", **asked).choices[0].text


def test_what_is_no_request_is_refused(served: Served) -> None:
    """A body that is no JSON, another path and another method have errors of the same form."""
    url = served[0]
    for reply, status in (
        (requests.post(f"{url}/v1/completions", data=b"{", timeout=9), 400),
        (requests.post(f"{url}/v1/completions", data=b"[" * 999, timeout=9), 400),
        (requests.get(f"{url}/v1/completions", timeout=9), 405),
        (requests.get(f"{url}/v1/embeddings", timeout=9), 404),
        (requests.get(f"{url}/v1/receipts/cmpl-{'0' * 32}", timeout=9), 404),
        (requests.get(f"{url}/v1/receipts/..%2f..%2fx", timeout=9), 404),
    ):
        assert reply.status_code == status
        assert reply.json()["error"]["message"]


def test_the_client_is_named_by_a_header(served: Served) -> None:
    """A receipt is to the address that the client says; what is no address is refused."""
    url, *_, stamps, _ = served
    asked = {"prompt": "the cat", **SAMPLED}
    address = "0x" + "ab" * 20
    requests.post(
        f"{url}/v1/completions", json=asked, headers={"Moot-Client": address}, timeout=9
    ).raise_for_status()
    assert stamps.issued[-1][1].lower() == address
    headers = {"Moot-Client": "me"}
    reply = requests.post(f"{url}/v1/completions", json=asked, headers=headers, timeout=9)
    assert reply.json()["error"]["param"] == "Moot-Client"


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_disconnects_frees_its_slot(served: Served, is_stream: bool) -> None:  # noqa: FBT001 - pytest passes it
    """Nobody computes for a client that is gone."""
    url, _, engine, *_ = served
    wait_until_idle(engine)
    before = engine.counts.cancelled
    asked = {"prompt": [5], "stream": is_stream, **SAMPLED, "max_tokens": 60}
    body = json.dumps(asked).encode()
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(20):  # it may be answered before the server sees that the client is gone
        with socket.create_connection((host, int(port))) as it:
            it.sendall(head.encode() + body)
            while not engine.active and engine.counts.cancelled == before:
                time.sleep(0.001)
        wait_until_idle(engine)
        if engine.counts.cancelled > before:
            return
    raise AssertionError("no slot was freed early")


def test_slow_clients_stop_nobody(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """More clients than there are places send a byte now and then, and others are answered."""
    url, *_, client = served
    host, port = url.removeprefix("http://").split(":")
    monkeypatch.setattr(server.BoundedProtocol, "most_connections", 20)
    slow = [socket.create_connection((host, int(port))) for _ in range(60)]
    half = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    bodies = [socket.create_connection((host, int(port))) for _ in range(5)]
    try:
        for it in slow:
            it.sendall(b"P")
        for it in bodies:
            it.sendall(half)
        for _ in range(2):
            for it in slow[-5:]:
                it.sendall(b"O")
            assert client.completions.create(prompt="the cat", **SAMPLED).choices[0].text
        for it in bodies:
            it.settimeout(20)
            assert it.recv(100).startswith(b"HTTP/1.1 408")
    finally:
        for it in (*slow, *bodies):
            it.close()


def test_a_head_that_does_not_come_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose head takes too long is closed."""
    host, port = served[0].removeprefix("http://").split(":")
    monkeypatch.setattr(server.BoundedProtocol, "head_s", 0.05)
    with socket.create_connection((host, int(port))) as it:
        it.sendall(b"POST /v1")
        it.settimeout(20)
        try:
            assert it.recv(100) == b""
        except ConnectionResetError:
            return


def test_a_checkpoint_without_a_template_has_no_chats(tmp_path: Path) -> None:
    """Without a template, a conversation is refused and a completion is not."""
    model = load_all(make_checkpoint(tmp_path, "gpt2", has_template=False), "tiny")[0]
    body = json.dumps({"model": "tiny", "messages": MESSAGES}).encode()
    with pytest.raises(RequestRefused, match="ask /v1/completions"):
        read_ask(body, {"tiny": model}, is_chat=True)
    body = json.dumps({"model": "tiny", "prompt": "the cat"}).encode()
    assert read_ask(body, {"tiny": model}, is_chat=False).question.most == 16


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    """A checkpoint with pickled weights is refused, with how to convert it."""
    make_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(CannotTranslate, match="convert it to safetensors"):
        load_all(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    """A tokenizer with more tokens than the model knows is refused."""
    make_checkpoint(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert load_all(tmp_path)[0].programs.vocabulary == config["vocab_size"]
    other = make_checkpoint(tmp_path / "other")
    for path in other.glob("token*"):
        path.unlink()
    with pytest.raises(CannotTranslate, match="no tokenizer"):
        load_all(other)


class Letters:
    """A tokenizer of one letter a token, of which 9 is half of the next one."""

    def decode(self, tokens: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of tokens."""
        assert skip_special_tokens
        text = "".join("abcdefgh~"[it] if it < 9 else "\ufffd" for it in tokens)
        return text.replace("\ufffda", "ä")


def test_speech_holds_back_what_may_be_a_stop_string() -> None:
    """What may begin a stop string waits, and is said if it does not go on."""
    speech = Speech(Letters(), ["bcd"])
    assert [speech.hear(it) for it in (0, 1, 2, 0)] == ["a", "", "", "bca"]
    assert [speech.hear(it) for it in (1, 2)] == ["", ""]
    assert speech.finish() == "bc"
    stopped = Speech(Letters(), ["bcd"])
    assert [stopped.hear(it) for it in (0, 1, 2, 3)] == ["a", "", "", ""]
    assert stopped.is_stopped
    assert stopped.finish() == ""


def test_speech_waits_for_whole_characters() -> None:
    """Half a character is not said before the other half is there, unless nothing follows."""
    speech = Speech(Letters(), [])
    assert [speech.hear(it) for it in (9, 0)] == ["", "ä"]
    assert speech.hear(9) == ""
    assert speech.finish() == "\ufffd"
