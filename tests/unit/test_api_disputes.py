"""Disputes in Python: what is held in memory, what is found, and what an interrupt leaves."""

import json
import signal
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import moot
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.run import Run
from tests.quick import only

STEP = 1


def make_recipe() -> moot.TrainingRecipe:
    """Return the recipe of one linear layer, from the same start every time."""
    model = torch.nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.arange(6.0).reshape(2, 3) / 8)
    return moot.TrainingRecipe(
        model,
        loss=lambda model, x: (model(x) ** 2).mean(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        batch=lambda step: (torch.full((2, 3), 1.0 + step),),
    )


@dataclass(eq=False)
class Doubled(Behaviour):
    """Doubles the first output of one step."""

    step: int = STEP

    def patch(self, step: int, state: Any) -> Patch | None:
        """Double it."""
        del state
        return {0: lambda output: output * np.float32(2)} if step == self.step else None


@pytest.fixture(scope="module")
def task() -> moot.Task:
    """Return three steps of the layer."""
    return moot.Task(moot.capture(make_recipe()), steps=3, checkpoint_every=2)


@pytest.fixture(scope="module")
def runs(task: moot.Task) -> list[moot.Run]:
    """Return a liar and an honest run."""
    return [moot.run(task, Doubled()), moot.run(task)]


@pytest.fixture(scope="module")
def played(task: moot.Task, runs: list[moot.Run]) -> moot.Dispute:
    """Return a dispute that was played without a break."""
    return moot.dispute(task, runs).finish()


def test_a_model_and_a_cheat_in_memory_are_disputed(played: moot.Dispute) -> None:
    """The liar is found where it lied, to the scalar, and loses its bond."""
    verdict = played.verdict
    assert (verdict.winner, verdict.losers) == ("honest-1", ("doubled-1",))
    assert verdict.honest_won
    assert verdict.located.step == STEP
    assert verdict.located.scalar is not None
    assert verdict.located.scalar.claimed != verdict.located.scalar.correct
    assert played.gas.total == sum(played.gas.by_stage.values()) > 0
    ledger = played.ledger
    assert sum(ledger.by_account.values()) + ledger.fees + ledger.burned == 0
    assert ledger.by_account["doubled-1"] <= -(10**18)


def test_results_are_plain_values_on_demand(played: moot.Dispute) -> None:
    """A dispute is a JSON object, its moves are a table, and a notebook shows its page."""
    told = json.loads(json.dumps(played.to_dict()))
    assert told["verdict"]["winner"] == "honest-1"
    assert played.moves.to_arrow().num_rows == len(told["transactions"]) == len(list(played))
    assert "<iframe srcdoc=" in played._repr_html_()
    assert "honest-1" in played.verdict._repr_html_()
    assert "<th>gas_used</th>" in played.moves._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_that_are_not_there(
    played: moot.Dispute, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """The lack of a library is said in one line, with what there is without it."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(moot.UsageError, match=f"{library} is not installed.*to_arrow"):
        getattr(played.moves, f"to_{library}")()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_that_are_there(played: moot.Dispute, library: str) -> None:
    """A frame has a row for each move, of the library that was asked for."""
    pytest.importorskip(library)
    assert len(getattr(played.moves, f"to_{library}")()) == len(played.moves)


def test_the_state_of_a_run_has_names(runs: list[moot.Run]) -> None:
    """A run's states are tensors by their names; there is none after a step that is not run."""
    liar, honest = runs
    assert honest.state()["parameter.weight"].shape == (2, 3)
    assert np.array_equal(honest.state(0)["parameter.weight"], liar.state(0)["parameter.weight"])
    assert not np.array_equal(honest.state()["parameter.weight"], liar.state()["parameter.weight"])
    with pytest.raises(moot.UsageError, match="after 4 of 3 steps"):
        honest.state(4)


def stopping(after: int, real: Any, *, by_signal: bool = False) -> Any:
    """Return a method that interrupts at its n-th call, and does as the real one otherwise."""
    left = [after]

    def call(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not by_signal:
            raise KeyboardInterrupt
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return real(*args, **kwargs)

    return call


@pytest.mark.parametrize("method", only({"trace"}, ["trace", "interval", "tensor"]))
def test_an_interrupted_dispute_goes_on(
    task: moot.Task, played: moot.Dispute, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """An interrupt in a provider's work loses no move: the rest is as if there had been none."""
    runs = [moot.run(task, Doubled()), moot.run(task)]
    dispute = moot.dispute(task, runs)
    monkeypatch.setattr(Run, method, stopping(1, getattr(Run, method)))
    with pytest.raises(KeyboardInterrupt):
        for _ in dispute:
            pass
    assert not dispute.is_over
    assert dispute.moves == played.moves[: len(dispute.moves)]
    assert list(dispute) == list(played)
    assert dispute.verdict == played.verdict
    monkeypatch.undo()
    assert moot.dispute(task, runs).finish().moves == played.moves


@pytest.mark.parametrize("after", only({1}, [1, 2, 4, 7]))
def test_an_interrupt_waits_for_the_chain(
    task: moot.Task,
    runs: list[moot.Run],
    played: moot.Dispute,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    """What is being sent is sent and noted, and then the user is heard; even the first call."""
    dispute = moot.dispute(task, runs)
    kind = type(dispute.referee._contract)
    monkeypatch.setattr(kind, "send", stopping(after, kind.send, by_signal=True))
    with pytest.raises(KeyboardInterrupt):
        dispute.finish()
    seen = len(dispute.moves)
    assert 0 < seen < len(played.moves)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert dispute.finish().moves == played.moves


def test_a_loop_that_is_left_can_be_taken_up(
    task: moot.Task, runs: list[moot.Run], played: moot.Dispute
) -> None:
    """Whoever leaves the loop finds the dispute where it was, and its moves from the first on."""
    dispute = moot.dispute(task, runs)
    for number, _ in enumerate(dispute):
        if number == 3:
            break
    assert len(dispute.moves) < len(played.moves)
    assert list(dispute) == list(played)


def test_impossible_disputes_are_refused(task: moot.Task, runs: list[moot.Run]) -> None:
    """One run, runs of two tasks, too small a bond and too few accounts are refused in one line."""
    other = moot.Task(task.captured, steps=2)
    with pytest.raises(moot.UsageError, match="two runs at least"):
        moot.dispute(task, runs[:1])
    with pytest.raises(moot.UsageError, match="of another task"):
        moot.dispute(other, runs)
    with pytest.raises(moot.UsageError, match="is too small"):
        moot.dispute(task, runs, bond_eth=0)
    with pytest.raises(moot.UsageError, match="3 accounts"):
        moot.dispute(task, runs, chain=moot.connect(accounts=3))
    with pytest.raises(moot.UsageError, match="do not fit 2 steps"):
        moot.Task(task.captured, steps=2, checkpoint_every=3)


@pytest.mark.slow
def test_disputes_share_a_chain(
    task: moot.Task, runs: list[moot.Run], played: moot.Dispute
) -> None:
    """A chain that is open is used by one dispute after the other."""
    with moot.connect() as chain:
        for _ in range(2):
            dispute = moot.dispute(task, runs, chain=chain)
            assert dispute.verdict.winner == played.verdict.winner


def test_a_scalar_and_a_dispute_are_shown_in_a_line(
    task: moot.Task, runs: list[moot.Run], played: moot.Dispute
) -> None:
    """What one prints has bit patterns in hexadecimal, and says how far a dispute has come."""
    scalar = moot.Scalar("add", (0x3F800000, 0), 0x3F800001, 0x3F800000, 4)
    assert str(scalar) == "add(0x3f800000, 0x00000000) = 0x3f800000, claimed 0x3f800001"
    names = ", ".join(played.runs)
    assert repr(moot.dispute(task, runs)) == f"<Dispute of {names}: 0 calls so far, not over>"
    calls = len(played.referee.accepted)
    assert repr(played.finish()) == f"<Dispute of {names}: {calls} calls so far, over>"
