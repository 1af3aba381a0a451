"""Programs of a model: those that answers are claimed by, and those that compute many at once."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import numpy as np

from moot.offchain.commitments.tensors import (
    Array,
    commit_tensors,
    compute_state_root,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture_once
from moot.offchain.frontend.exchange import to_array
from moot.offchain.frontend.generation.answering import (
    LEAST_LENGTH,
    Chunk,
    Question,
    fill_in,
    make_answer_recipe,
)
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.programs.graph import Program
from moot.offchain.programs.roots import ProgramHeader, ProgramTree

TOKENS = "buffer.tokens"
_OF_MODEL = ("parameter.", "buffer.model.")


@dataclass(frozen=True)
class AnswerProgram:
    """The program of all answers of a length.

    Attributes:
        program: one step.
        base: the start state of no question: weights, and zeros.
        length: tokens of a text.
        fixed: the roots of the tensors that no step and no question changes, by slot.
    """

    program: Program
    base: Sequence[Array]
    length: int
    fixed: dict[int, Digest]

    @cached_property
    def header(self) -> ProgramHeader:
        """What a receipt says about the program."""
        return ProgramTree(self.program).header

    @cached_property
    def slots(self) -> dict[str, int]:
        """The numbers of the state's slots, by name."""
        return {slot.name: number for number, slot in enumerate(self.program.state)}

    @property
    def writer(self) -> int:
        """The operator whose output the tokens are after a step."""
        sink = self.program.nodes[self.program.first_sink + self.slots[TOKENS]]
        return sink.operands[0].reference

    @cached_property
    def executor(self) -> Executor:
        """What runs it step by step."""
        return Executor(self.program)

    def make_start(self, question: Question) -> list[Array]:
        """Return the start state of a question."""
        state = list(self.base)
        for name, array in fill_in(question, self.length).items():
            state[self.slots[name]] = array
        return state

    def hash_start(self, question: Question) -> Digest:
        """Return the root of the start state of a question."""
        return self.hash_run(fill_in(question, self.length), {})[0]

    def hash_run(
        self, given: Mapping[str, Array], made: Mapping[str, Array]
    ) -> tuple[Digest, Digest, Digest]:
        """Return the root of a start state, that of the state at the end, and that of its tokens.

        Args:
            given: what a question is in the start state, as `fill_in` has it.
            made: the tensors that are others at the end.
        """
        found = iter(commit_tensors([*given.values(), *made.values()]))  # at once: most are small
        roots, tops = list(self._roots), list[Digest]()
        for names in given, made:
            for name in names:
                roots[self.slots[name]] = next(found).root
            tops.append(compute_state_root(roots))
        return tops[0], tops[1], roots[self.slots[TOKENS]]

    @cached_property
    def _roots(self) -> list[Digest]:
        """The roots of the base's tensors."""
        others = [n for n in range(len(self.base)) if n not in self.fixed]
        made = commit_tensors([self.base[n] for n in others])
        known = self.fixed | {n: it.root for n, it in zip(others, made, strict=True)}
        return [known[n] for n in range(len(self.base))]


class ChunkProgram:
    """A pass over chunks of several texts, ready to run.

    Args:
        captured: its program and what else it reads.
        weights: the model's tensors by name, in place of those that were captured.
    """

    def __init__(self, captured: Captured, weights: dict[str, Array]) -> None:
        slots = captured.program.state
        pairs = zip(slots, captured.initial_state, strict=True)
        self._state = [weights.get(slot.name, array) for slot, array in pairs]
        self._outputs = [n for n, slot in enumerate(slots) if slot.name.startswith("output.")]
        self._executor = Executor(captured.program)

    def run(self, tokens: Array, starts: Array, caches: Sequence[Array]) -> list[Array]:
        """Return what `Chunk.forward` does."""
        state = self._executor.run(self._state, [tokens, starts, *caches], 0)
        return [state[number] for number in self._outputs]


class Programs:
    """The programs of one model, made when they are asked for first.

    Args:
        reader: the model.
        name: what tells its configuration from others, for programs that were captured before;
            empty if they are not to be kept.
        context: tokens of a text at most; None for all that the model sees.

    Raises:
        UsageError: the model does not see so many tokens.
    """

    def __init__(self, reader: Reader, name: str = "", context: int | None = None) -> None:
        limit = reader.limit
        if context is None and limit is None:
            raise UsageError("the model does not say how many tokens it sees; give --context")
        if context is not None and (context < 2 or (limit and context > limit)):
            raise UsageError(f"a context of {context} tokens; choose one from 2 to {limit}")
        self.reader, self.context = reader, context or limit or 0
        self._name = name and hashlib.sha256(name.encode()).hexdigest()
        self._lock = RLock()
        self._answers: dict[int, AnswerProgram] = {}
        self._chunks: dict[tuple[int, int, int, bool], ChunkProgram] = {}
        self._roots: dict[str, Digest] = {}
        chunk = Chunk(reader, 1, has_logits=True)
        named = [("parameter", chunk.named_parameters()), ("buffer", chunk.named_buffers())]
        self._weights = {
            f"{kind}.{name}": np.ascontiguousarray(to_array(tensor))
            for kind, tensors in named
            for name, tensor in tensors
        }

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return self.reader.vocabulary

    def find_length(self, question: Question) -> int:
        """Return the length of the program that answers a question."""
        return question.find_length(self.context)

    def list_lengths(self) -> list[int]:
        """Return the lengths that programs of answers have."""
        lengths = [min(LEAST_LENGTH, self.context)]
        while lengths[-1] < self.context:
            lengths.append(min(2 * lengths[-1], self.context))
        return lengths

    def find_program(self, question: Question) -> AnswerProgram:
        """Return the program that answers a question."""
        return self.find_answer(self.find_length(question))

    def find_answer(self, length: int) -> AnswerProgram:
        """Return the program of answers of a length."""
        with self._lock:
            if length not in self._answers:
                self._answers[length] = self._make_answer(length)
            return self._answers[length]

    def find_chunk(self, texts: int, count: int, length: int, *, has_logits: bool) -> ChunkProgram:
        """Return the pass over `count` tokens of each text, with caches of a length."""
        key = texts, count, length, has_logits
        with self._lock:
            if key not in self._chunks:
                chunk = Chunk(self.reader, count, has_logits=has_logits)
                recipe = chunk.make_recipe(texts, length)
                captured = capture_once(recipe, self._describe("chunk", key))
                self._chunks[key] = ChunkProgram(captured, self._weights)
            return self._chunks[key]

    def _describe(self, kind: str, sizes: object) -> str | None:
        """Return the name by which a capture is kept, None if it is not to be."""
        return f"serve {kind} {sizes} of {self._name}" if self._name else None

    def _make_answer(self, length: int) -> AnswerProgram:
        recipe = make_answer_recipe(self.reader, length)
        captured = capture_once(recipe, self._describe("answer", length))
        slots = captured.program.state
        base = [
            self._weights.get(slot.name, array)
            for slot, array in zip(slots, captured.initial_state, strict=True)
        ]
        fixed = [
            number
            for number, slot in enumerate(slots)
            if slot.name.startswith((*_OF_MODEL, "constant."))
        ]
        for number in fixed:
            name = slots[number].name
            if name.startswith(_OF_MODEL) and name not in self._roots:
                self._roots[name] = commit_tensors([base[number]])[0].root
        roots = {
            number: self._roots.get(slots[number].name) or commit_tensors([base[number]])[0].root
            for number in fixed
        }
        return AnswerProgram(captured.program, base, length, roots)
