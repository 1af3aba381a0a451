"""Receipts of answers: verified, refuted at a token, or about something else."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.command.receipt import REFUTED, UNVERIFIABLE, _Finder
from moot.contracts.model.receipts import Receipt
from moot.offchain.errors import ReceiptError, UsageError
from moot.offchain.frontend.generation.answering import Question, Sampling
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.reading import make_cheat
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.receipts.book import Book, BookReader
from moot.offchain.receipts.documents import read_document
from moot.offchain.receipts.issuing import Claimed
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.serving.answered import Answered
from moot.offchain.serving.checkpoints import load_all
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.issuing import make_claim, make_document
from moot.offchain.serving.lying import LyingEngine
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Limits
from moot.offchain.serving.tasks import TaskFinder, find_model, make_task, read_asked
from moot.offchain.serving.verdicts import Recomputation, Verdict, check_receipt
from tests.end_to_end.command import moot
from tests.receipt_helpers import DOMAIN, make_key, make_provider, make_receipt, sign
from tests.serving_checkpoints import make_checkpoint
from tests.serving_helpers import Asked, make_programs
from tests.unit.test_serving_adapters import make_adapter

LIMITS = Limits(slots=2, chunks=(16,), least_length=64)
QUESTION = Question([3, 1, 4, 1, 5], 9, Sampling(0.8, 0, 1.0, 7))
LIE = 4


@cache
def answer(cheat: str = "", question: Question = QUESTION) -> Answered:
    """Return the answer of a tiny model, by an engine that may lie."""
    return compute(make_programs("llama"), cheat, question)


def compute(programs: Programs, cheat: str = "", question: Question = QUESTION) -> Answered:
    """Return the answer of a model, by an engine that may lie."""
    engine = LyingEngine(programs, LIMITS, cheat) if cheat else Engine(programs, LIMITS)
    asked = Asked(question)
    engine.submit(asked.request)
    while not asked.results:
        engine.turn()
    (found,) = asked.results
    assert isinstance(found, Answered)
    return found


def make_signed(answered: Answered, **changes: Any) -> SignedReceipt:
    """Return the receipt of an answer, with some fields changed before it is signed."""
    return sign(replace(_make_receipt(make_claim(answered)), **changes))


def _make_receipt(claimed: Claimed) -> Receipt:
    header = claimed.header
    return make_receipt(
        layout=header.layout,
        program_top=header.top,
        operators=header.operators,
        state_slots=header.state_slots,
        batch_slots=header.batch_slots,
        start_root=claimed.start_root,
        data_top=claimed.data_top,
        steps=claimed.steps,
        checkpoint_every=claimed.checkpoint_every,
        history=claimed.history,
        answer_slot=claimed.answer_slot,
        answer=claimed.answer,
    )


def show(answered: Answered) -> dict[str, Any]:
    """Return the document of an answer."""
    return {"receipt": None, **make_document("tiny", answered)}


def check(signed: SignedReceipt, document: dict[str, Any], name: str = "llama") -> Any:
    """Check a receipt with a document and a model."""
    return check_receipt(signed, read_asked(document), make_programs(name))


def test_honest_answer_is_verified() -> None:
    """The receipt of what a model answers is verified by one pass."""
    found = check(make_signed(answer()), show(answer()))
    assert (found.verdict, found.recomputation) == (Verdict.VERIFIED, Recomputation.REPRODUCED)


def test_lie_is_refuted_at_its_token(tmp_path: Path) -> None:
    """A lie about one token is found at that token; a run that tells it claims the same roots.

    The run is that of `wrong-token`, step by step; where it first differs from the honest one is
    the step, operator and element that the check has named.
    """
    lie = answer(f"wrong-token:token={LIE}")
    found = check(make_signed(lie), show(lie))
    assert (found.verdict, found.token) == (Verdict.REFUTED, LIE)
    task = make_task(make_programs("llama"), QUESTION, lie.steps)
    cheat = make_cheat(f"wrong-token:token={LIE}", task, np.random.default_rng(1))
    run = Run(task, cheat, Store(tmp_path))
    run.compute()
    assert run.history.top == lie.history_top
    assert run.state_tree(lie.steps).node(0, lie.answer_slot) == lie.answer_root
    honest = Run(task, Behaviour(), Store(tmp_path / "honest"))
    places = [
        (step, operator)
        for step in range(lie.steps)
        for operator in range(len(task.program.nodes))
        if run.trace(step).node(0, operator) != honest.trace(step).node(0, operator)
    ]
    assert places[0] == (found.step, found.operator)


def test_wrong_state_is_refuted() -> None:
    """Right tokens with another claim are refuted, without a token."""
    found = check(make_signed(answer(), history=bytes(32)), show(answer()))
    assert (found.verdict, found.token) == (Verdict.REFUTED, None)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"stake_wei": 0}, "nothing backs it"),
        ({"released_wei": 10**18}, "not sound"),
        ({"steps": 3, "checkpoint_every": 3}, "another answer"),
        ({"checkpoint_every": 1}, "another answer"),
        ({"program_top": bytes(32)}, "another program"),
        ({"layout": bytes(32)}, "another program"),
        ({"start_root": bytes(32)}, "other weights"),
        ({"answer_slot": 0}, "are not the tokens"),
        ({"answer": bytes(32)}, "another text"),
    ],
)
def test_other_receipts_are_unverifiable(changes: dict[str, Any], line: str) -> None:
    """A receipt that is about something else than what is at hand is not called wrong."""
    found = check(make_signed(answer(), **changes), show(answer()))
    assert (found.verdict, found.recomputation) == (
        Verdict.UNVERIFIABLE,
        Recomputation.NOT_RECOMPUTED,
    )
    assert line in found.line


def test_other_files_and_models_are_unverifiable() -> None:
    """A changed text or seed, and another model, refute nothing: the receipt is not of them."""
    signed, document = make_signed(answer()), show(answer())
    tokens = list(document["answer"])
    changed = [
        {**document, "answer": [tokens[0] ^ 1, *tokens[1:]]},
        {**document, "answer": tokens[:-1]},
        {**document, "answer": [*tokens[:-1], 10**6]},
        {**document, "request": {**document["request"], "seed": 8}},
        {**document, "request": {**document["request"], "prompt": [1] * 60}},
    ]
    for other in changed:
        assert check(signed, other).verdict is Verdict.UNVERIFIABLE
    assert check(signed, document, "gpt2").verdict is Verdict.UNVERIFIABLE


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": []},
        {"answer": "text"},
        {"answer": [1.5]},
        {"answer": [-1]},
        {"answer": [True]},
        {"answer": list(range(11))},
        {"request": None},
        {"request": {}},
        {"request": {"prompt": [], "max_tokens": 3}},
    ],
)
def test_senseless_documents_are_refused(changes: dict[str, Any]) -> None:
    """A document that does not say what was asked and answered is refused in one line."""
    with pytest.raises(ReceiptError) as refusal:
        read_asked({**show(answer()), **changes})
    assert "\n" not in str(refusal.value)


def test_book_knows_its_tasks(tmp_path: Path) -> None:
    """The task of a challenge is found by its terms, and of other terms none is."""
    programs, answered = make_programs("llama"), answer()
    signed = make_signed(answered)
    request = str(show(answered)["request"]).replace("'", '"').encode()
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        kept = book.issue(signed.receipt, 10**30, request, make_key().sign_digest)
        jobs = {kept.digest: 3}
        find = TaskFinder(BookReader(tmp_path), lambda _: [programs], jobs.get)
        terms = kept.receipt.make_terms(10**18)
        task = find(3, terms)
        assert task is not None
        assert (task.start_root, task.steps) == (answered.start_root, answered.steps)
        assert find(3, replace(terms, start_root=bytes(32))) is None
        assert find(3, replace(terms, steps=2)) is None


@pytest.mark.parametrize("cheat", ["wrong-output", "wrong-token", "wrong-token:token=x", "lazy"])
def test_other_cheats_are_refused(cheat: str) -> None:
    """An engine lies about a token of each answer, and in no other way."""
    with pytest.raises(UsageError, match="choose N"):
        LyingEngine(make_programs("llama"), LIMITS, cheat)


@pytest.mark.filterwarnings("ignore")  # PEFT's own
def test_answers_of_an_adapter_are_checked(tmp_path: Path) -> None:
    """Whoever names the adapter verifies an honest answer and refutes a lie; no other can say."""
    base = make_checkpoint(tmp_path / "base", "llama")
    folders = {name: tmp_path / name for name in ("other", "tuned")}
    for number, folder in enumerate(folders.values(), 5):
        make_adapter(base, folder, "llama", number)
    *_, tuned = load_all(base, "plain", adapters=folders)
    named = [word for name, at in folders.items() for word in ("--adapter", f"{name}={at}")]
    path = tmp_path / "answer.json"
    for cheat, status in (("", 0), (f"wrong-token:token={LIE}", REFUTED)):
        answered = compute(tuned.programs, cheat)
        path.write_text(json.dumps({**show(answered), "receipt": make_signed(answered).encode()}))
        words = ["receipt", "check", str(path), "--model", str(base)]
        assert moot(*words, *named).status == status
        for less in (named[:2], []):
            done = moot(*words, *less)
            assert done.status == UNVERIFIABLE
            assert "get the model that it is of, or name the adapter" in done.stdout
    _, document = read_document(path)
    models = _Finder(base, "fp32", named[1::2])(document)
    assert find_model(models, QUESTION, make_signed(answered).receipt) is models[-1]
