"""Issuing: answers as claims that receipts are signed for."""

import json
import time
from dataclasses import dataclass

from moot.contracts.model.types import Address
from moot.offchain.receipts.book import Answer
from moot.offchain.receipts.issuing import Claimed, Standing
from moot.offchain.receipts.issuing import Issuer as ReceiptIssuer
from moot.offchain.receipts.service import ChainService
from moot.offchain.serving.answered import Answered


@dataclass(frozen=True, slots=True)
class Signing:
    """Signs receipts of answers by a provider's book.

    Attributes:
        issuer: signs claims.
    """

    issuer: ReceiptIssuer

    def issue(self, answered: Answered, client: Address, name: str, model: str) -> str:
        """See `answered.Issuer`."""
        tokens = len(answered.question.prompt) + len(answered.tokens)
        # With the length the program is found again, whatever --context there was.
        request = json.dumps({**make_request(answered), "length": answered.length}).encode()
        document = Answer(name, json.dumps(make_document(model, answered)).encode())
        claim = make_claim(answered)
        return self.issuer.issue(claim, client, tokens, request, document).encode()

    def find(self, name: str) -> bytes | None:
        """See `answered.Issuer`."""
        found = self.issuer.book.find_answer(name)
        if found is None:
            return None
        signed, document = found
        return json.dumps({"receipt": signed.encode(), **json.loads(document)}).encode()


def make_claim(answered: Answered) -> Claimed:
    """Return what an answer claims: one checkpoint, after its last step."""
    return Claimed(
        answered.header,
        answered.start_root,
        answered.steps,
        answered.steps,
        answered.history_top,
        answered.answer_slot,
        answered.answer_root,
    )


def make_request(answered: Answered) -> dict[str, object]:
    """Return what is needed to run an answer again, for whoever has the model."""
    question, sampling = answered.question, answered.question.sampling
    return {
        "prompt": list(question.prompt),
        "max_tokens": question.most,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }


def make_document(model: str, answered: Answered) -> dict[str, object]:
    """Return what is needed to check an answer beside its receipt: what was asked and what came."""
    return {
        "model": model,
        "request": make_request(answered),
        "answer": list(answered.tokens),
        "finish_reason": str(answered.reason),
        "length": answered.length,
        "steps": answered.steps,
        "program": answered.header.root.hex(),
        "start": answered.start_root.hex(),
        "end": answered.end_root.hex(),
        "tokens": answered.answer_root.hex(),
    }


class Looking:
    """Looks how a provider stands at a service, seldom: blocks are slower than answers.

    Args:
        service: the service.
        provider: whose bond it is.
        pause_s: for how long what was seen is taken as it is.
    """

    def __init__(self, service: ChainService, provider: Address, pause_s: float = 2.0) -> None:
        self._service, self._provider, self._pause_s = service, provider, pause_s
        self._seen: Standing | None = None
        self._when = 0.0

    def __call__(self, last_blocks: int) -> Standing:
        """Return the provider's standing, for receipts that end so many blocks later."""
        now = time.monotonic()
        if self._seen is None or now > self._when + self._pause_s:
            block = self._service.chain.block_number()
            bond = self._service.get_bond(self._provider, block + last_blocks)
            self._seen, self._when = Standing(block, bond), now
        return self._seen
