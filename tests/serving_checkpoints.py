"""A tiny checkpoint with a tokenizer and a chat template, and a server that answers by it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moot.offchain.serving.answered import Answered, Issuer
from moot.offchain.serving.checkpoints import Model, load_all
from moot.offchain.serving.endpoint import Bounds, Endpoint
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.issuing import make_document
from moot.offchain.serving.requests import Limits
from moot.offchain.serving.server import running
from tests.serving_helpers import make_model

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXT = "the cat sat on the mat; the dog ate the hat, and the cat saw that. "


def make_checkpoint(folder: Path, name: str = "llama", *, has_template: bool = True) -> Path:
    """Write a tiny model with a tokenizer of its own; return the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - heavy

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=270, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([TEXT], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")  # noqa: S106 - of a vocabulary
    tokenizer.chat_template = TEMPLATE if has_template else None
    tokenizer.save_pretrained(folder)
    model = make_model(name, vocabulary=len(tokenizer))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    return folder


class Stamps:
    """An issuer for tests: its receipts say how many there were before."""

    def __init__(self) -> None:
        self.issued: list[tuple[Answered, str]] = []
        self._documents: dict[str, bytes] = {}

    def issue(self, answered: Answered, client: str, name: str, model: str) -> str:
        """See `Issuer`."""
        receipt = f"receipt-{len(self.issued)}"
        self.issued.append((answered, client))
        document = {"receipt": receipt, **make_document(model, answered)}
        self._documents[name] = json.dumps(document).encode()
        return receipt

    def find(self, name: str) -> bytes | None:
        """See `Issuer`."""
        return self._documents.get(name)


@contextmanager
def serving(
    folder: Path,
    issuer: Issuer | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
    limits: Limits = Limits(slots=2, chunks=(16,), least_length=64),  # noqa: B008 - likewise
) -> Iterator[tuple[str, Model, Engine]]:
    """Serve a checkpoint; yield the address, the model and its engine."""
    model = load_all(folder, "tiny")[0]
    engine = Engine(model.programs, limits)
    with running(Endpoint([(model, engine)], issuer, bounds).make_app()) as port:
        yield f"http://127.0.0.1:{port}", model, engine


def make_client(url: str) -> Any:
    """Return the official client, which does not ask again."""
    from openai import OpenAI  # noqa: PLC0415 - heavy

    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
