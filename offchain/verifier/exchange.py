"""The files through which the verifier and its worker speak: JSON and safetensors, never pickle.

question.json          the question but for its tensors, and the bound
question.safetensors   tensor "i" is operand i, tensor "claimed" the defender's output
answer.json            what the worker found, or why it found nothing
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import VerifierError
from moot.offchain.verifier.bounds import Bound
from moot.offchain.verifier.questions import Question

_QUESTION = "question.json"
_TENSORS = "question.safetensors"
_ANSWER = "answer.json"
_CLAIMED = "claimed"


@dataclass(frozen=True, slots=True)
class Answer:
    """The worker's findings.

    Attributes:
        root: root of the right output.
        differs_at: linear index of the first element in which the claimed output differs, if any.
        claimed_bits: the claimed bits there.
        correct_bits: the right bits there.
    """

    root: Digest
    differs_at: int | None = None
    claimed_bits: int | None = None
    correct_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why the worker found nothing; `operand` has the wrong root, if that is it."""

    problem: str
    operand: int | None = None


def write_question(folder: Path, question: Question, bound: Bound) -> None:
    """Write a question for the worker."""
    tensors = {str(i): a for i, a in enumerate(question.operands) if a is not None}
    if question.claimed is not None:
        tensors[_CLAIMED] = question.claimed
    content = {
        "bound": asdict(bound),
        "arithmetic": question.arithmetic.name,
        "encoding": question.encoding.hex(),
        "step": question.step,
        "operand_roots": [root and root.hex() for root in question.operand_roots],
        "claimed_root": question.claimed_root.hex(),
        "entries": question.entries.hex(),
    }
    save_file({name: np.asarray(a, order="C") for name, a in tensors.items()}, folder / _TENSORS)
    (folder / _QUESTION).write_text(json.dumps(content))


def read_question(folder: Path) -> tuple[Question, Bound]:
    """Return the question that was written, and its bound."""
    content = json.loads((folder / _QUESTION).read_bytes())
    tensors: dict[str, Array] = load_file(folder / _TENSORS)
    roots = tuple(root and bytes.fromhex(root) for root in content["operand_roots"])
    operands = tuple(tensors.get(str(i)) for i in range(len(roots)))
    keys = ("encoding", "claimed_root", "entries")
    encoding, claimed_root, entries = (bytes.fromhex(content[key]) for key in keys)
    inputs = (ARITHMETICS[content["arithmetic"]], encoding, content["step"], operands, roots)
    return Question(*inputs, claimed_root, tensors.get(_CLAIMED), entries), Bound(
        **content["bound"]
    )


def write_answer(folder: Path, answer: Answer | Refusal) -> None:
    """Write the worker's answer."""
    content = asdict(answer)
    if isinstance(answer, Answer):
        content["root"] = answer.root.hex()
    (folder / _ANSWER).write_text(json.dumps(content))


def read_answer(folder: Path) -> Answer | Refusal:
    """Return the worker's answer, of which nothing but its form is certain (`VerifierError`)."""
    try:
        content = json.loads((folder / _ANSWER).read_bytes())
        if "problem" in content:
            return Refusal(str(content.pop("problem")), _natural(content.pop("operand")))
        root = _digest(content.pop("root"))
        return Answer(root, **{name: _natural(value) for name, value in content.items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise VerifierError(f"the worker's answer is unreadable ({error}); ask again") from error


def _digest(value: Any) -> Digest:
    digest = bytes.fromhex(value)
    if len(digest) == DIGEST_BYTES:
        return digest
    raise ValueError(f"{value!r} is not a digest")


def _natural(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"{value!r} is not a natural number")
