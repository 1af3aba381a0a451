"""The engine: whatever happens around a request, its answer is that of its program run alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moot.offchain.errors import RequestRefused, UsageError
from moot.offchain.frontend.generation.answering import Question, Sampling
from moot.offchain.serving.answered import Answered, Reason
from moot.offchain.serving.checking import check_answer
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.programs import ChunkProgram
from moot.offchain.serving.requests import Limits
from tests.quick import only, share
from tests.serving_helpers import (
    CONTEXT,
    WORDS,
    Asked,
    answer_alone,
    draw_question,
    is_that_of_the_program,
    make_programs,
)

LIMITS = Limits(
    slots=4, chunks=(3, 8), turn_tokens=40, group=3, least_length=16, prefix_bytes=1 << 16
)


def run(engine: Engine, arrivals: list[tuple[int, Asked]], cancels: dict[int, int]) -> None:
    """Run an engine, in which requests arrive and are cancelled at the turns that are given."""
    turn, left = 0, sorted(arrivals, key=lambda pair: pair[0])
    while left or engine.active or engine.waiting:
        while left and left[0][0] <= turn:
            engine.submit(left.pop(0)[1].request)
        for number, when in cancels.items():
            if when == turn:
                arrivals[number][1].request.is_cancelled = True
        engine.turn()
        turn += 1


def draw_arrivals(seed: int, count: int) -> tuple[list[tuple[int, Asked]], dict[int, int]]:
    """Return drawn requests with the turns at which they arrive and are cancelled."""
    generator = np.random.default_rng(seed)
    stems = [generator.integers(WORDS, size=12).tolist() for _ in range(3)]
    arrivals = []
    for _ in range(count):
        question = draw_question(generator, stems)
        stop = int(generator.integers(1, 9)) if generator.integers(4) == 0 else 0
        ends = (int(generator.integers(WORDS)),) if generator.integers(4) == 0 else ()
        arrivals.append((int(generator.integers(4 * count)), Asked(question, stop, ends)))
    cancels = {
        n: when + int(generator.integers(12))
        for n, (when, _) in enumerate(arrivals)
        if generator.integers(8) == 0
    }
    return arrivals, cancels


def check_arrivals(name: str, seed: int, count: int) -> Engine:
    """Run drawn arrivals, and compare each answer with its program run alone."""
    programs = make_programs(name)
    engine = Engine(programs, LIMITS)
    arrivals, cancels = draw_arrivals(seed, count)
    run(engine, arrivals, cancels)
    assert engine.active == engine.waiting == 0
    for number, (_, asked) in enumerate(arrivals):
        (answered,) = asked.results
        if answered is None:
            assert number in cancels
            continue
        assert isinstance(answered, Answered)
        assert list(answered.tokens) == asked.tokens
        assert is_that_of_the_program(programs, answered)
    assert engine.counts.answers + engine.counts.cancelled == count
    return engine


@pytest.mark.parametrize("name", only({"llama"}, ["gpt2", "llama"]))
def test_answers_do_not_depend_on_arrivals(name: str) -> None:
    """With drawn arrivals, lengths, stops and cancellations, roots are those of texts alone."""
    engine = check_arrivals(name, 1, share(60, 3))
    assert engine.counts.known_tokens > 0
    assert engine.counts.cancelled > 0


@pytest.mark.parametrize(("turn_tokens", "turns"), [(512, 5), (9, 6), (8, 8)])
def test_a_turn_reads_prompts_until_it_has_its_tokens(turn_tokens: int, turns: int) -> None:
    """Four prompts are read at once, two at a time or one by one; all then are decoded together."""
    engine = Engine(make_programs("llama"), replace(LIMITS, turn_tokens=turn_tokens))
    asked = [Asked(Question([1, 2, 3, 4, 5, 6, 7 + n], 5)) for n in range(4)]
    run(engine, [(0, it) for it in asked], {})
    assert engine.counts.turns == turns


def test_prompts_side_by_side_are_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are as long are read together, if they are most of a group, others alone."""
    passes: list[tuple[int, ...]] = []
    read = ChunkProgram.run

    def watch(self: ChunkProgram, tokens: Any, starts: Any, caches: Any) -> Any:
        passes.append(tokens.shape)
        assert (*tokens.shape, caches[0].shape[2]) in engine.list_sizes()
        return read(self, tokens, starts, caches)

    monkeypatch.setattr(ChunkProgram, "run", watch)
    engine = Engine(make_programs("llama"), LIMITS)
    asked = [Asked(Question(list(range(1, count)), 1)) for count in (5, 8, 9, 3)]
    run(engine, [(0, it) for it in asked], {})
    assert passes == [(1, 3), (3, 8), (1, 3), (4, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_answers(seed: int) -> None:
    """The same of ten times a thousand requests, half of each model."""
    check_arrivals("gpt2" if seed % 2 else "llama", 100 + seed, 1_000)


def ask(question: Question, **changes: Any) -> Answered:
    """Return the answer to one question."""
    engine = Engine(make_programs("llama"), replace(LIMITS, **changes))
    asked = Asked(question)
    run(engine, [(0, asked)], {})
    answered: Answered = asked.results[0]
    return answered


QUESTION = Question([5, 9, 2, 20, 11, 7], 12, Sampling(1.1, 0, 0.9, seed=77))


def test_another_start_has_another_root() -> None:
    """Whatever is asked otherwise, the roots of the start and of the end are others."""
    answered = ask(QUESTION)
    sampling = QUESTION.sampling
    others = [
        replace(QUESTION, prompt=[5, 9, 2, 20, 11, 8]),
        replace(QUESTION, sampling=replace(sampling, seed=78)),
        replace(QUESTION, sampling=replace(sampling, temperature=1.2)),
        replace(QUESTION, sampling=replace(sampling, top_p=0.8)),
        replace(QUESTION, sampling=replace(sampling, top_k=3)),
    ]
    for other in others:
        found = ask(other)
        assert found.header == answered.header
        assert found.start_root != answered.start_root
        assert found.end_root != answered.end_root


def test_a_root_of_other_steps_is_another() -> None:
    """The comparison with a text alone sees a changed token, and a step too few."""
    programs, answered = make_programs("llama"), ask(QUESTION)
    assert is_that_of_the_program(programs, answered)
    changed = ((answered.tokens[0] + 1) % WORDS, *answered.tokens[1:])
    assert not is_that_of_the_program(programs, replace(answered, tokens=changed))
    shorter = replace(answered, tokens=answered.tokens[:-1])
    assert not is_that_of_the_program(programs, shorter)


def test_a_check_finds_the_first_wrong_token() -> None:
    """An honest answer has the roots that it claims; of a forged one, the first wrong token."""
    programs, answered = make_programs("llama"), ask(QUESTION)
    wrong, again = check_answer(programs, QUESTION, answered.tokens, Reason.LENGTH)
    assert wrong is None
    assert again == answered
    for place in (0, 4, len(answered.tokens) - 1):
        forged = list(answered.tokens)
        forged[place] = (forged[place] + 1) % WORDS
        assert check_answer(programs, QUESTION, forged) == (place, None)
    assert check_answer(programs, QUESTION, answered.tokens[:3])[0] is None
    with pytest.raises(UsageError, match="give the whole answer"):
        check_answer(programs, QUESTION, [])
    with pytest.raises(UsageError, match="none of 0 to 22"):
        check_answer(programs, QUESTION, [WORDS])


def test_the_last_place_of_the_context_is_answered() -> None:
    """A text may be as long as the context."""
    question = Question([1] * (CONTEXT - 2), 2)
    answered = ask(question)
    assert len(answered.tokens) == 2
    assert is_that_of_the_program(make_programs("llama"), answered)


def test_more_than_the_engine_takes_is_refused() -> None:
    """Texts beyond the context, tokens that are none, and too many who wait are refused."""
    engine = Engine(make_programs("llama"), replace(LIMITS, waiting=2))
    with pytest.raises(RequestRefused, match="64 of the context"):
        engine.submit(Asked(Question([1] * CONTEXT, 1)).request)
    for token in (-1, WORDS):
        with pytest.raises(RequestRefused, match="are 0 to 22"):
            engine.submit(Asked(Question([token], 1)).request)
    for _ in range(2):
        engine.submit(Asked(QUESTION).request)
    with pytest.raises(RequestRefused, match="try again later") as it:
        engine.submit(Asked(QUESTION).request)
    assert it.value.status == 429


def test_what_takes_too_long_ends() -> None:
    """A request that is older than it may be ends with an error, and frees its slot."""
    engine = Engine(make_programs("llama"), replace(LIMITS, request_s=-1.0))
    asked = Asked(QUESTION)
    run(engine, [(0, asked)], {})
    assert asked.results[0].status == 504
    assert engine.active == 0


def test_a_failure_ends_the_texts_in_work_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in a turn is told to the requests in work; the next one is answered."""
    engine = Engine(make_programs("llama"), LIMITS)
    with monkeypatch.context() as patch:
        patch.setattr(engine._chooser, "choose", lambda *_: 1 / 0)
        asked = [Asked(QUESTION), Asked(QUESTION)]
        run(engine, [(0, it) for it in asked], {})
    assert [it.results[0].status for it in asked] == [500, 500]
    assert "division by zero" in asked[0].results[0].message
    assert engine.counts.failed == 2
    after = Asked(QUESTION)
    run(engine, [(0, after)], {})
    assert is_that_of_the_program(make_programs("llama"), after.results[0])


SETTINGS = {
    "temperature": {"temperature": -0.1},
    "hot": {"temperature": 101},
    "nan": {"temperature": float("nan")},
    "top_k": {"top_k": 65},
    "top_p": {"top_p": 0.0},
    "more than all": {"top_p": 1.1},
    "seed": {"seed": -1},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    """A setting that the program can't do is refused with what to choose."""
    settings: dict[str, Any] = SETTINGS[name]
    with pytest.raises(UsageError, match="choose one"):
        Sampling(**settings)


@pytest.mark.parametrize("steps", only({3}, [1, 3, 9]))
def test_steps_after_the_end_change_nothing_before(steps: int) -> None:
    """A step more leaves the tokens that are there."""
    programs = make_programs("llama")
    few, more = (answer_alone(programs, QUESTION, len(QUESTION.prompt) + n) for n in (0, steps))
    slot = programs.find_answer(32).slots["buffer.tokens"]
    known = len(QUESTION.prompt) + 1
    assert few[slot][0, :known].tolist() == more[slot][0, :known].tolist()
