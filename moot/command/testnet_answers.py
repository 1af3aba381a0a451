"""Answers on a test net: providers serve a model, a client asks, and a watcher samples."""

import json
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moot.offchain.parties.events import Lines
    from moot.offchain.parties.testnet import Testnet

STAKE_ETHER = "5"
QUESTIONS = ("Once upon a time", "The court finds", "To be or not to be")
MOST_TOKENS = 8
LIE = "wrong-token:token=1"
START_S = 600.0
"""A model's programs are captured when it is served first."""
DISPUTE_S = 1_800.0
ASK_S = 120.0


def play_answers(net: "Testnet", tell: "Lines", model: Path, providers: int, cheat: str) -> None:
    """Serve a model by several providers, ask each, and have a watcher challenge the lie.

    Args:
        net: the net.
        tell: takes events.
        model: the checkpoint.
        providers: how many serve it; the first one lies, if a cheat is given.
        cheat: `wrong-token:token=N`, or nothing.

    Raises:
        MootError: a party does not begin, or the lie is not found in time.
    """
    challenges, inbox = net.add_service(), net.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    urls = []
    for number in range(1, providers + 1):
        own = cheat if number == 1 else ""
        urls.append(_add_server(net, f"server-{number}", model, own))
    page = net.show_court(challenges)
    tell("court", f"{page} shows the challenges", url=page)
    net.add_party("watcher", ("receipt", "watch", str(inbox), "--model", str(model)))
    for url in urls:
        for place, question in enumerate(QUESTIONS):
            _ask(tell, url, question, inbox / f"{url.split(':')[-1][:5]}-{place}.json")
            if cheat and url == urls[0]:
                break  # a lie is enough
    if cheat and providers:
        net.await_event("watcher", "ended", DISPUTE_S)
        tell("refuted", "the watcher has won, and the provider that lied has lost a bond")


def _add_server(net: "Testnet", name: str, model: Path, cheat: str) -> str:
    """Start a provider that serves a model and defends its receipts; return its address."""
    receipts = str(net.folder / f"{name}-receipts")
    about = ("--model", str(model), "--receipts", receipts)
    net.configure(name)
    net.call(name, ("service", "stake", STAKE_ETHER))
    lie = ("--cheat", cheat) if cheat else ()
    net.add_party(name, ("serve", *about, "--port", "0", *lie))
    url = net.await_answers(START_S)
    defender = f"{name}-defender"
    folder = str(net.folder / defender)
    net.add_hand(name, defender, ("receipt", "defend", *about), cheat=cheat, folder=folder)
    return url


def _ask(tell: "Lines", url: str, question: str, file: Path) -> None:
    """Ask a server, and hand its receipt to whoever watches."""
    body = {"prompt": question, "max_tokens": MOST_TOKENS, "temperature": 0}
    said = _fetch(f"{url}/completions", json.dumps(body | {"model": _find_model(url)}).encode())
    text = said["choices"][0]["text"]
    tell("answer", f"[client] {question!r} -> {text!r}", url=url, id=said["id"])
    document = _fetch(f"{url}/receipts/{said['id']}")
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(document))
    draft.rename(file)


def _find_model(url: str) -> str:
    return str(_fetch(f"{url}/models")["data"][0]["id"])


def _fetch(url: str, body: bytes | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - a server of this net
    with urllib.request.urlopen(request, timeout=ASK_S) as answer:  # noqa: S310 - likewise
        found: dict[str, Any] = json.loads(answer.read())
        return found
