"""Receipts: answers over HTTP that have them, beside answers that have none.

Both endpoints are in this process, each with an engine of its own, over one model's programs, and
the client as well. Of what `moot serve` does, only the look at the chain is left out, which it
takes every other second. Stock is the endpoint without receipts.
"""

import http.client
import json
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import numpy as np
from eth_utils.address import to_checksum_address

from moot.bench.serving import make_programs
from moot.bench.shapes import TINY_RECEIPTS, ReceiptSizes
from moot.bench.sides import Comparison
from moot.bench.timing import Side
from moot.contracts.model.receipts import Domain
from moot.contracts.model.types import MAX_BOND_WEI
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.receipts.book import Book
from moot.offchain.receipts.issuing import Conditions, Issuer, Standing
from moot.offchain.serving.checkpoints import Model
from moot.offchain.serving.endpoint import Endpoint
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.issuing import Signing
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Limits
from moot.offchain.serving.server import running

GROUP = "receipts"
_STANDING = Standing(block=0, bond_wei=MAX_BOND_WEI)
_DOMAIN = Domain(1, to_checksum_address(bytes(19) + b"\x01"))


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield answers of every model and length."""
    sizes = TINY_RECEIPTS if is_tiny else ReceiptSizes()
    for name, size in sizes.models:
        _, programs = make_programs(name, size, sizes.context)
        with (
            TemporaryDirectory(prefix="moot-receipts-") as folder,
            _signing(Path(folder)) as signing,
            _serving(programs, signing) as ours,
            _serving(programs, None) as stock,
        ):
            for tokens in sizes.tokens:
                kind = f"{sizes.prompt} + {tokens}"
                one, other = (_make_side(at, sizes.prompt, tokens) for at in (ours, stock))
                yield Comparison(GROUP, f"{name} {size}", kind, one, other)


@contextmanager
def _signing(folder: Path) -> Iterator[Signing]:
    """Open a book for a new key."""
    key = KeyAccount(secrets.token_bytes(32))
    with Book(folder, _DOMAIN, to_checksum_address(key.address)) as book:
        conditions = Conditions(stake_wei=1)
        yield Signing(Issuer(book, key.sign_digest, conditions, lambda _: _STANDING))


@contextmanager
def _serving(programs: Programs, issuer: Signing | None) -> Iterator[http.client.HTTPConnection]:
    """Serve a model; yield a connection."""
    model = Model("model", programs, _make_tokenizer(programs.vocabulary), frozenset())
    limits = Limits(slots=1, prefix_bytes=0)
    engine = Engine(programs, limits, has_claims=issuer is not None)
    with running(Endpoint([(model, engine)], issuer).make_app()) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with closing(connection):
            yield connection


def _make_tokenizer(vocabulary: int) -> Any:
    """Return a tokenizer to which each token is a word."""
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow to import

    words = {f"w{n}": n for n in range(vocabulary)}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": "1.0", "added_tokens": [], "model": model}, file)
        file.flush()
        return PreTrainedTokenizerFast(tokenizer_file=file.name)


def _make_side(connection: http.client.HTTPConnection, prompt: int, tokens: int) -> Side:
    """Return an answer of so many tokens, as numbers."""
    fields = {"model": "model", "prompt": [*range(prompt)], "max_tokens": tokens, "temperature": 0}
    body, kind = json.dumps(fields), {"Content-Type": "application/json"}

    def ask() -> http.client.HTTPResponse:
        connection.request("POST", "/v1/completions", body, kind)
        return connection.getresponse()

    def run() -> Any:
        try:
            response = ask()
        except ConnectionError:  # the server ends those that rest, while programs are prepared
            connection.close()
            response = ask()
        with response:
            said = json.loads(response.read())
        return np.array([int(word[1:]) for word in said["choices"][0]["text"].split()])

    return run
