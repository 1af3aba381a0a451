"""The file of a rounding log, and its root: canonical, bounded, of one program and step."""

import re
import zlib
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.errors import CommitmentError, ProgramError, WrongLog
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.graph import Kind
from moot.offchain.programs.legality import check_program
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.rounding.entries import (
    HEADER_BYTES,
    Entries,
    StepLog,
    decode_entries,
    decode_log,
    encode_entries,
    encode_log,
    make_log,
)
from moot.offchain.programs.rounding.meaning import count_allowed
from moot.offchain.programs.rounding.roots import LogTree, add_slot, climb_log

PROGRAM = capture(build("mlp"), trust=True, arithmetic=LOGGED).program
ROOT = ProgramTree(PROGRAM).header.root
ALLOWED = {i: count_allowed(node) for i, node in enumerate(PROGRAM.nodes) if count_allowed(node)}
STEP = 7


@st.composite
def logs(draw: st.DrawFn) -> StepLog:
    """Draw a log of the program."""
    operators = draw(st.sets(st.sampled_from(sorted(ALLOWED)), max_size=4))
    found: dict[int, Entries] = {}
    for operator in sorted(operators):
        places = st.integers(0, PROGRAM.nodes[operator].elements - 1)
        elements = draw(st.sets(places, min_size=1, max_size=ALLOWED[operator]))
        found[operator] = tuple((e, draw(st.booleans())) for e in sorted(elements))
    return StepLog(found)


def make_example() -> StepLog:
    """Return a log of all operators that may have one, with as many entries as there may be."""
    rng = Random(1)
    drawn = {i: rng.sample(range(PROGRAM.nodes[i].elements), count) for i, count in ALLOWED.items()}
    return make_log((i, e, bool(rng.getrandbits(1))) for i, found in drawn.items() for e in found)


def refuse(data: bytes, match: str, step: int = STEP) -> None:
    """Assert that a log is refused, in one line."""
    with pytest.raises(WrongLog, match=match) as caught:
        decode_log(data, PROGRAM, ROOT, step)
    assert "\n" not in str(caught.value)


@given(logs())
def test_a_log_is_read_as_it_was_written(log: StepLog) -> None:
    """Reading gives what was written, and one log has one encoding."""
    data = encode_log(log, ROOT, STEP)
    assert decode_log(data, PROGRAM, ROOT, STEP) == log
    for operator, entries in log.operators.items():
        encoding = encode_entries(entries)
        assert decode_entries(encoding, PROGRAM.nodes[operator], STEP) == entries


@given(logs(), st.data())
def test_other_bytes_are_another_log_or_none(log: StepLog, data: st.DataObject) -> None:
    """What can be read at all is the one encoding of what was read."""
    encoded = bytearray(encode_log(log, ROOT, STEP))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(HEADER_BYTES - 1, len(encoded) - 1))
        encoded[place] = data.draw(st.integers(0, 255))
    try:
        found = decode_log(bytes(encoded), PROGRAM, ROOT, STEP)
    except WrongLog:
        return
    assert encode_log(found, ROOT, STEP) == bytes(encoded)


def test_a_log_that_is_cut_short_is_refused() -> None:
    """So it is at every length, and with bytes behind its end."""
    data = encode_log(make_example(), ROOT, STEP)
    for length in range(len(data)):
        refuse(data[:length], "does not begin|cut short|declares")
    refuse(data + b"\0", "declares")


def test_a_log_of_something_else_is_refused() -> None:
    """A log is of one program and one step, and no compressed stream is taken for one."""
    data = encode_log(make_example(), ROOT, STEP)
    refuse(data, f"it is of step {STEP}", STEP + 1)
    refuse(encode_log(make_example(), bytes(32), STEP), "it is of the program")
    refuse(zlib.compress(bytes(1 << 20)), "does not begin")


def _refuse_body(body: bytes, match: str) -> None:
    head = encode_log(StepLog(), ROOT, STEP)[: HEADER_BYTES - 4]
    refuse(head + len(body).to_bytes(4, "big") + body, match)


def test_what_a_log_says_is_bounded() -> None:
    """It names operators and elements that are there, as many as may be, in their shortest form."""
    operator, most = min(ALLOWED.items(), key=lambda pair: PROGRAM.nodes[pair[0]].elements)
    elements = PROGRAM.nodes[operator].elements
    start = encode_log(make_log([(operator, 0, False)]), ROOT, STEP)[HEADER_BYTES:-2]
    _refuse_body(b"\xff\xff\x7f" + b"\0\0", "names operator")
    _refuse_body(start + bytes([most]) + b"\0" * (most + 1), "may have")
    _refuse_body(start + encode_entries(((elements, False),)), "names element")
    _refuse_body(start + b"\0\x80\0", "shortest form")
    _refuse_body(start + b"\0" + b"\xff" * 12, "shortest form")
    _refuse_body(start + b"\2\0", "cut short|may have")
    silent = next(i for i in range(len(PROGRAM.nodes)) if i not in ALLOWED)
    _refuse_body(encode_log(make_log([(silent, 0, True)]), ROOT, STEP)[HEADER_BYTES:], "may have 0")


def test_the_root_shows_the_entries_of_each_operator() -> None:
    """A proof leads from an operator's entries, or from none, to the root, and to no other one."""
    count = len(PROGRAM.nodes)
    tree = LogTree(make_example(), count)
    for operator in (*list(ALLOWED)[:3], 0, count - 1):
        encoding, proof = tree.open(operator)
        content = climb_log(encoding, operator, count, proof)
        assert content.tobytes() == tree.content.tobytes() == tree.root
        assert climb_log(encoding + b"\0", operator, count, proof).tobytes() != tree.root
        others = (i for i in range(count) if (i ^ operator) == 1 and encoding)
        assert all(climb_log(encoding, i, count, proof).tobytes() != tree.root for i in others)
    with pytest.raises(CommitmentError):
        climb_log(b"", 0, count, ())
    assert LogTree(StepLog(), count).root != tree.root


def test_the_slot_of_the_root_belongs_to_the_program() -> None:
    """A program with the slot is legal, and another one."""
    program = add_slot(PROGRAM)
    check_program(program)
    assert ProgramTree(program).header.root != ROOT
    assert replace(program, batch=program.batch[:-1]) == PROGRAM


def test_an_unknown_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of whose error nothing is known is named, with its operator and its line."""
    index = next(i for i in ALLOWED if PROGRAM.nodes[i].kind is Kind.MAP)
    monkeypatch.delitem(FUNCTIONS, PROGRAM.nodes[index].function)  # type: ignore[arg-type]  # a dict
    place = re.escape(
        f"operator {PROGRAM.names[index]} ({PROGRAM.lines[index]}): no bound is known"
    )
    with pytest.raises(ProgramError, match=place):
        Preparation(PROGRAM)
