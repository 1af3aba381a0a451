"""Two processes on unlike hardware come to the same bits by the proven method."""

from dataclasses import replace

import pytest

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.errors import WrongLog
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.rounding.entries import make_log
from moot.offchain.programs.rounding.journals import Reading, Writing
from moot.offchain.programs.rounding.meaning import is_loggable
from moot.offchain.replication.compare import Setting
from moot.offchain.replication.profiles import PROFILES, find_profile
from moot.offchain.replication.proven import check, replicate, summarize

NATIVE = PROFILES["native"]


@pytest.mark.slow
def test_the_log_leads_to_the_same_bits() -> None:
    """A trainer and an auditor of unlike profiles have the same state after every step."""
    counts = summarize(list(replicate(Setting("mlp", steps=2), NATIVE, PROFILES["old"])))
    assert counts.differing_steps == 0
    assert counts.first_differing_step is None
    assert counts.log_bytes_per_step < 500
    assert counts.steerable_share <= counts.steerable_share_of_loggable < 2e-3
    assert counts.trainer_over_binary64 is None


@pytest.mark.slow
@pytest.mark.parametrize("other", [name for name in PROFILES if name != "native"])
@pytest.mark.parametrize("program", ["mlp", "gpt2", "cnn"])
def test_no_bit_differs_under_any_profile(program: str, other: str) -> None:
    """Under every profile every state has the same bits, and what is logged is little."""
    setting = Setting(program, size="small", steps=3, timed=True)
    counts = summarize(list(replicate(setting, NATIVE, find_profile(other))))
    assert counts.differing_steps == 0
    assert counts.steerable_share < 2e-3
    assert counts.trainer_over_binary64
    assert counts.auditor_over_binary64
    assert counts.over_binary32


def test_a_log_that_steers_is_refused() -> None:
    """An auditor names the step, the operator and the element of an entry outside the band."""
    captured = capture(build("mlp"), trust=True, arithmetic=LOGGED)
    program, batch = captured.program, captured.batch(0)
    executor, writing = Executor(program), Writing()
    executor.run(captured.initial_state, batch, 0, journal=writing)
    operator = next(i for i, node in enumerate(program.nodes) if is_loggable(node))
    given = {(o, e) for o, found in writing.log.operators.items() for e, _ in found}
    element = next(e for e in range(16) if (operator, e) not in given)
    reading = Reading(make_log([(operator, element, True)]))
    honest = executor.run(captured.initial_state, batch, 0)
    found = executor.run(captured.initial_state, batch, 0, journal=reading)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in honest]
    with pytest.raises(WrongLog, match=f"the log of step 0.*element {element} of operator"):
        check(reading, program, 0)
    check(replace(reading, void=[]), program, 0)
