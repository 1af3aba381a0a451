"""Stories about programs that are not legal: valid proofs, invalid ones, and who is paid."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from moot.contracts.model.types import ZERO
from moot.offchain.programs.graph import Program
from tests.lockstep.spoiling import mutate
from tests.lockstep.story import assemble, join, meet
from tests.mutants.plans import make_table
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, MEMBERS, SALT, VERIFIER, Tape
from tests.referee import stage
from tests.referee.illegal import (
    LEGAL,
    LONGEST,
    OPERANDS,
    OPERATORS,
    STARTS,
    STEPS,
    TWO_TERMS,
    Shown,
    list_forms,
    list_proofs,
    make_job,
    read_second,
    wrap_round,
)
from tests.referee.programs import every_kind


def tell_illegal() -> Iterator[list[Call]]:
    """Yield the stories."""
    for number, (program, index) in enumerate(OPERATORS.values()):
        shown = make_job(program)
        yield _tell(shown, "prove_operator", shown.show_operator(0, index), number)
    for number, (program, index, place) in enumerate(OPERANDS.values()):
        shown = make_job(program)
        for step in (0, STEPS - 1):
            args = shown.show_operand(0, index, place, step=step)
            yield _tell(shown, "prove_operand", args, number)
    for number, tensor in enumerate(STARTS):
        shown = replace(make_job(LEGAL), start=[tensor])
        args = shown.show_operand(0, 0, 0, is_start=True)
        yield _tell(shown, "prove_operand", args, number)
    long = make_job(LEGAL)
    for size in (2_048, 2_049, 2_080, 2_081, 32_768, 32_769):
        shown = replace(long, encodings=(*long.encodings[:2], b"\4" * size, long.encodings[3]))
        yield _tell(shown, "prove_operator", shown.show_operator(0, 2), size)
        yield _tell(shown, "prove_operand", shown.show_operand(0, 3, 0), size)
    for shown in list_forms():
        yield _tell_form(shown)
    for number in range(STEPS):
        shown = read_second()
        args = shown.show_operand(0, 1, 0, step=number)
        yield _tell(shown, "prove_operand", args, number)
    for program in (every_kind(), LONGEST, TWO_TERMS):
        yield _tell_legal(program)
    yield _tell_wrapped()


def _open(shown: Shown) -> Tape:
    tape = Tape()
    terms = shown.get_terms(make_table(None).terms)
    tape.call("open_job", CLIENT, terms, value_wei=1001)
    return tape


def _tell(shown: Shown, name: str, args: tuple[Any, ...], number: int) -> list[Call]:
    """Let members join, and prove that the job is not legal, in wrong ways first."""
    tape = _open(shown)
    top, late = bytes([number % 250 + 1]) * 32, MEMBERS[3]
    assemble(tape, dict.fromkeys(MEMBERS[:3], top), SALT, hidden=MEMBERS[2:3])
    join(tape, late, ZERO)
    meet(tape, CLIENT, MEMBERS[0], late)
    if number % 2:
        _beat_one(tape)
    for place, value in enumerate(args):
        if not isinstance(value, bool):
            for other in mutate(value, stage.ACCOUNTS):
                _try(tape, name, (*args[:place], other, *args[place + 1 :]))
    for sender in (CLIENT, *MEMBERS[:1]):
        tape.note("annul", sender, 0)
    tape.call(name, VERIFIER, *args, value_wei=1)
    tape.call(name, VERIFIER, *args)
    tape.call(name, VERIFIER, *args)
    for account in (*MEMBERS[:5], CLIENT, VERIFIER):
        tape.note("get_debt", CLIENT, 0, account)
        tape.call("collect", account, 0)
        tape.call("collect", account, 0)
    return tape.calls


def _try(tape: Tape, name: str, args: tuple[Any, ...]) -> None:
    """Make a call that the model refuses; another spelling of the proof is left out."""
    calls = len(tape.calls)
    assert tape.call(name, VERIFIER, *args) is not None or len(tape.calls) > calls


def _beat_one(tape: Tape) -> None:
    """Let the clock of the match's first side run out."""
    (started,) = (event for event in tape.log if event.name == "MatchStarted")
    pair = next(iter(tape.store.matches))
    position: Any = started.args[3]
    tape.block = position.deadline + 1
    tape.call("timeout", CLIENT, pair, position)


def _tell_form(shown: Shown) -> list[Call]:
    """Show what an operand reads, which may be what it should be."""
    tape = _open(shown)
    tape.call("prove_operand", VERIFIER, *shown.show_operand(0, 2, 0))
    return tape.calls


def _tell_legal(program: Program) -> list[Call]:
    """Show all operators and operands of a legal program, in vain."""
    shown = make_job(program)
    tape = _open(shown)
    for name, args in list_proofs(shown, 0):
        tape.call(name, VERIFIER, *args)
    return tape.calls


def _tell_wrapped() -> list[Call]:
    """Show the datum of another slot in a step that there is not."""
    shown, args = wrap_round()
    tape = _open(shown)
    tape.call("prove_operand", VERIFIER, *args)
    return tape.calls
