"""Issuing: answers as claims that receipts are signed for."""

import json
from dataclasses import dataclass

from moot.contracts.model.types import Address
from moot.offchain.receipts.issuing import Claimed
from moot.offchain.receipts.issuing import Issuer as ReceiptIssuer
from moot.offchain.serving.answered import Answered


@dataclass(frozen=True, slots=True)
class Signing:
    """Signs receipts of answers by a provider's book.

    Attributes:
        issuer: signs claims.
    """

    issuer: ReceiptIssuer

    def issue(self, answered: Answered, client: Address) -> str:
        """See `answered.Issuer`."""
        question = answered.question
        tokens = len(question.prompt) + len(answered.tokens)
        request = json.dumps(make_request(answered)).encode()
        return self.issuer.issue(make_claim(answered), client, tokens, request).encode()


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
