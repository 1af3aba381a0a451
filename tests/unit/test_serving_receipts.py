"""Receipts of answers, and the checkpoints that they are given by."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from eth_utils.address import to_checksum_address

from moot.contracts.model.receipts import Domain, is_sound
from moot.contracts.model.types import MIN_BOND_WEI
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.errors import BondExhausted, StoreError, UsageError
from moot.offchain.frontend.generation.answering import Question
from moot.offchain.receipts.book import Book
from moot.offchain.receipts.issuing import Conditions, Issuer, Standing
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.serving.answered import Answered, Reason
from moot.offchain.serving.checking import check_answer
from moot.offchain.serving.checkpoints import load_all
from moot.offchain.serving.issuing import Signing
from tests.serving_checkpoints import make_checkpoint
from tests.serving_helpers import make_model, make_programs

SERVICE = to_checksum_address("0x" + "5e" * 20)
CLIENT = to_checksum_address("0x" + "c1" * 20)
QUESTION = Question([3, 1, 4], 4)


def find_answer() -> Answered:
    """Return an honest answer, found by trying tokens from the left."""
    programs, tokens = make_programs("llama"), [0] * QUESTION.most
    while True:
        wrong, answered = check_answer(programs, QUESTION, tokens, Reason.LENGTH)
        if wrong is None:
            assert answered is not None
            return answered
        tokens[wrong] += 1


def test_a_receipt_says_what_was_answered(tmp_path: Path) -> None:
    """A receipt is sound, numbered, and has the claim of its answer; without a bond none comes."""
    answered, key = find_answer(), KeyAccount(bytes(31) + b"\x01")
    bonds = [Standing(100, 2 * MIN_BOND_WEI)]
    with Book(tmp_path, Domain(7, SERVICE), to_checksum_address(key.address)) as book:
        signing = Signing(
            Issuer(book, key.sign_digest, Conditions(token_price_wei=3), lambda _: bonds[-1])
        )
        texts = [signing.issue(answered, CLIENT, name, "tiny") for name in "ab"]
        with pytest.raises(BondExhausted):
            signing.issue(answered, CLIENT, "c", "tiny")
    receipts = [SignedReceipt.decode(text).receipt for text in texts]
    assert [it.number for it in receipts] == [0, 1]
    assert all(map(is_sound, receipts))
    receipt = receipts[0]
    assert (receipt.history, receipt.answer) == (answered.history_top, answered.answer_root)
    assert receipt.steps == receipt.checkpoint_every == 6
    assert (receipt.start_root, receipt.answer_slot) == (answered.start_root, answered.answer_slot)
    assert receipt.price_wei == 7 * 3
    assert receipt.program_top == answered.header.top
    other = replace(answered, end_root=bytes(32))
    assert other.history_top != receipt.history


def test_a_book_keeps_the_newest_answers(tmp_path: Path) -> None:
    """So many answers are kept, also by the next process; names that are none are not found."""
    answered, key = find_answer(), KeyAccount(bytes(31) + b"\x01")
    provider = to_checksum_address(key.address)
    receipts = dict[str, str]()
    for name in "abcd":
        with Book(tmp_path, Domain(7, SERVICE), provider, most_answers=3) as book:
            standing = Standing(100, 9 * MIN_BOND_WEI)
            issuer = Issuer(book, key.sign_digest, Conditions(), lambda _, it=standing: it)
            signing = Signing(issuer)
            receipts[name] = signing.issue(answered, CLIENT, name, "tiny")
            found = {it: signing.find(it) for it in "abcde"}
            with pytest.raises(StoreError):
                signing.issue(answered, CLIENT, name, "tiny")  # a name is one answer's
    assert [name for name, document in found.items() if document] == ["b", "c", "d"]
    document = json.loads(found["d"] or b"")
    assert document["receipt"] == receipts["d"]
    assert document["answer"] == list(answered.tokens)


def test_bfloat16_in_shards_is_widened(tmp_path: Path) -> None:
    """Weights of bfloat16, in several files, are float32 numbers that are the same."""
    make_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model = make_model("llama", vocabulary=270).bfloat16()
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    loaded = load_all(tmp_path)[0]
    weight = loaded.programs.reader.model.get_parameter("model.embed_tokens.weight")
    assert weight.dtype is torch.float32
    assert torch.equal(weight, model.get_parameter("model.embed_tokens.weight").float())
    assert loaded.name == tmp_path.name


@pytest.mark.slow
def test_int8_is_another_program(tmp_path: Path) -> None:
    """A model of int8 weights answers, by another program; an unknown precision is refused."""
    folder = make_checkpoint(tmp_path)
    headers = []
    for precision in ("fp32", "int8"):
        programs = load_all(folder, precision=precision)[0].programs
        headers.append(programs.find_answer(32).header.root)
    assert headers[0] != headers[1]
    wrong, _ = check_answer(programs, Question([5], 1), [0])
    assert wrong in {0, None}
    with pytest.raises(UsageError, match="did you mean 'int8'"):
        load_all(folder, precision="int4")


def test_a_context_beyond_the_model_is_refused(tmp_path: Path) -> None:
    """A context may be smaller than the model's, and not larger."""
    folder = make_checkpoint(tmp_path)
    assert load_all(folder, context=40)[0].programs.list_lengths() == [32, 40]
    with pytest.raises(UsageError, match="choose one from 2 to 64"):
        load_all(folder, context=65)
