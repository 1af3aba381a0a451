"""Tasks of answers: what a receipt's challenge is about, made of a request and the model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.contracts.model.receipts import Receipt
from moot.contracts.model.types import Terms
from moot.offchain import bounded_json
from moot.offchain.commitments.tensors import compute_tensor_root
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import NotChallenged, ReceiptError, UsageError
from moot.offchain.frontend.generation.answering import Question, Sampling, fill_in
from moot.offchain.providers.task import Task
from moot.offchain.receipts.book import BookReader, Entry
from moot.offchain.serving.programs import TOKENS, AnswerProgram, Programs

MOST_TOKENS = 1 << 20
"""More than a text has of any model that we know."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the answer that a document says came of it.

    Attributes:
        question: the question.
        answer: the tokens of the answer, one at least.
    """

    question: Question
    answer: tuple[int, ...]

    @property
    def steps(self) -> int:
        """The steps that make the answer."""
        return len(self.question.prompt) + len(self.answer) - 1

    def hash_text(self, program: AnswerProgram) -> Digest:
        """Return the root of the tensor of tokens in a state that ends with this answer."""
        tokens = fill_in(self.question, program.length)[TOKENS]
        first = len(self.question.prompt)
        tokens[0, first : first + len(self.answer)] = self.answer
        return compute_tensor_root(tokens)


def read_asked(document: Mapping[str, Any]) -> Asked:
    """Return what was asked and answered, as a document of /v1/receipts/ID says it.

    Raises:
        ReceiptError: the document does not say it.
    """
    try:
        question = read_question(document["request"])
        answer = _read_tokens(document["answer"])
    except (KeyError, TypeError) as error:
        raise ReceiptError("the file does not say what was asked and answered") from error
    if not 1 <= len(answer) <= question.most:
        raise ReceiptError(
            f"the file has an answer of {len(answer)} tokens to a question for "
            f"{question.most} at most"
        )
    return Asked(question, answer)


def read_question(request: Mapping[str, Any]) -> Question:
    """Return the question of a request, as receipts' documents and books have it.

    Raises:
        ReceiptError: it is none.
    """
    try:
        sampling = Sampling(
            temperature=float(request["temperature"]),
            top_k=_read_count(request["top_k"]),
            top_p=float(request["top_p"]),
            seed=_read_count(request["seed"]),
        )
        return Question(
            _read_tokens(request["prompt"]), _read_count(request["max_tokens"]), sampling
        )
    except (KeyError, TypeError, ValueError, OverflowError, UsageError) as error:
        raise ReceiptError(f"the request of a receipt makes no sense: {error}") from error


def make_task(programs: Programs, asked: Question, steps: int) -> Task:
    """Return the task of an answer: the one-row program, run for so many steps."""
    program = programs.find_program(asked)
    return Task(program.program, program.make_start(asked), lambda _: (), steps, steps)


def _read_tokens(tokens: Any) -> tuple[int, ...]:
    if not isinstance(tokens, list) or len(tokens) > MOST_TOKENS:
        raise TypeError("tokens are a list")
    if not all(type(token) is int and 0 <= token < 1 << 31 for token in tokens):
        raise TypeError("a token is a number")
    return tuple(tokens)


def _read_count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 64:
        raise TypeError(f"{number!r:.40} is no count")
    return number


def find_model(models: Iterable[Programs], question: Question, receipt: Receipt) -> Programs | None:
    """Return the model whose program and start a receipt names; None if it is none of these."""
    for programs in models:
        if question.tokens > programs.context:
            continue
        program = programs.find_program(question)
        found = program.header.top, program.hash_start(question)
        if found == (receipt.program_top, receipt.start_root):
            return programs
    return None


def choose_model(models: Sequence[Programs], question: Question, receipt: Receipt) -> Programs:
    """Return the model that a receipt is of, or the first one, which says why it is of none."""
    return find_model(models, question, receipt) or models[0]


FindModels = Callable[[Mapping[str, Any]], Sequence[Programs]]
"""Returns the models that an answer may be of, for what was written down of its request."""


@dataclass(frozen=True)
class TaskFinder:
    """Finds the task of a challenge of one of a book's receipts.

    Attributes:
        book: the receipts.
        find_models: finds the models.
        find_job: returns the job in which a receipt is challenged, as the service names it.
    """

    book: BookReader
    find_models: FindModels
    find_job: Callable[[Digest], int | None]

    def __call__(self, job_id: int, terms: Terms) -> Task | None:
        """Return the task of a challenge; None if no receipt of the book, or no model, has it.

        Raises:
            NotChallenged: the service names another job of the receipt, or none as yet.
            ChainError: the service can't be asked.
        """
        entries = [
            entry
            for entry in self.book.find_start(terms.start_root)
            if (it := entry.signed.receipt).program_top == terms.program_top
            and it.steps == terms.steps
        ]
        if entries and all(self.find_job(it.signed.digest) != job_id for it in entries):
            raise NotChallenged("the service does not say that a receipt is challenged by it")
        return self._make(entries[0]) if entries else None

    def require_models(self) -> None:
        """Refuse models that the newest receipts are not of: none of them could be defended.

        Raises:
            UsageError: there is such a receipt.
        """
        tried: set[tuple[Digest, int]] = set()
        for entry in self.book.list_newest():
            receipt = entry.signed.receipt
            kind = receipt.program_top, receipt.state_slots
            if kind not in tried and self._make(entry) is None:
                raise UsageError(
                    f"receipt {receipt.number} is not of this model, and could not be defended; "
                    "choose --model, --precision and --adapter as for `moot serve`"
                )
            tried.add(kind)

    def _make(self, entry: Entry) -> Task | None:
        receipt, document = entry.signed.receipt, bounded_json.decode(entry.request)
        question = read_question(document)
        programs = find_model(self.find_models(document), question, receipt)
        return None if programs is None else make_task(programs, question, receipt.steps)
