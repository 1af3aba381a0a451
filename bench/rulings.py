"""The bounded verifier's ruling by what a member hands over, beside one by a run of the job.

Both come over HTTP on loopback, from a server in this process. The honest member's run is made
before; the match is the one that stops at the operator, as the chain would show it.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from moot.contracts.model.types import NOBODY, Facts, Pair, Position
from moot.contracts.reasons import LeafMode, Outcome, Phase
from moot.offchain.datastore.server import Server
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.evidence.handover import hand_over
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import VerifierError
from moot.offchain.parties.evidence_requests import EvidenceRequest, collect_evidence, judge_found
from moot.offchain.parties.verifier import rule
from moot.offchain.programs.cost import compute_operator_cost
from moot.offchain.programs.graph import Kind
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.publication import get_task, put_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

PATIENCE_S, POLL_S = 600.0, 0.01
LIE = bytes(32)


def measure_rulings(program: str, size: str, steps: int) -> dict[str, Any]:
    """Return seconds and bytes of rulings on operators of a job's last step.

    Args:
        program: an example's name.
        size: its size.
        steps: the steps of the job; there is a checkpoint after every second one.

    Returns:
        For the operators (a product of median cost and the dearest one): what the member takes to
        hand over, the verifier to be handed over and to rule, and the bytes; and what a ruling on
        the dearest one takes by a run of the job.
    """
    every = min(2, steps)
    setting = Setting(
        program=program, size=size, steps=steps, checkpoint_every=every, trust_capture=True
    )
    with TemporaryDirectory(prefix="moot-rulings-") as name:
        folder, task = Path(name), make_task(setting)
        put_task(open_store(str(folder / "job")), task)
        run = Run(task, Behaviour(), Store(folder / "member"))
        run.compute()
        run.trace(steps - 1)  # which the member has made in the match
        operators = _choose(task)
        rows = [_measure_one(folder / str(it), run, it) for it in operators]
        return {"rows": rows, "run": _measure_run(folder, run, operators[-1])}


def _choose(task: Task) -> list[int]:
    """Return a product of median cost, and the dearest one."""
    nodes = task.program.nodes
    products = [i for i, node in enumerate(nodes) if node.kind is Kind.CONTRACT]
    products.sort(key=lambda it: compute_operator_cost(nodes[it]).operations)
    return [products[len(products) // 2], products[-1]]


def _make_request(run: Run, operator: int) -> EvidenceRequest:
    """Return the request about a match in which a liar disputes an operator of the last step."""
    task = run.task
    step = task.steps - 1
    first_step = step - step % task.checkpoint_every
    trace = run.trace(step)
    tops = (run.history.top, LIE)
    place = Facts(
        first_step=first_step,
        step=step,
        checkpoint=first_step // task.checkpoint_every,
        intervals=(run.interval(first_step).top, LIE),
        traces=(trace.top, LIE),
    )
    position = Position(
        phase=Phase.VERIFIER,
        mover=0,
        deadline=0,
        spare_blocks=0,
        clock_blocks=0,
        increment_blocks=0,
        nodes=(trace.node(0, operator), LIE),
        index=operator,
    )
    terms = make_terms(task, leaf_mode=LeafMode.OPERATOR)
    return EvidenceRequest(terms, Board(Pair(0, NOBODY, NOBODY), position, place), tops)


def _measure_one(folder: Path, run: Run, operator: int) -> dict[str, Any]:
    request = _make_request(run, operator)
    began = time.perf_counter()
    size = hand_over(open_store(str(folder / "by")), run, request.terms, request.place, 0)
    handed = time.perf_counter()
    with Server(folder / "by") as server, server.serving(POLL_S):
        collect_evidence(
            request, folder / "heard", [server.url], time.monotonic() + PATIENCE_S, Event()
        )
    heard = time.perf_counter()
    _check(judge_found(request, folder / "heard"))
    return {
        "operator": operator,
        "operations": compute_operator_cost(run.task.program.nodes[operator]).operations,
        "bytes": size,
        "handing_seconds": handed - began,
        "hearing_seconds": heard - handed,
        "ruling_seconds": time.perf_counter() - heard,
    }


def _measure_run(folder: Path, run: Run, operator: int) -> dict[str, Any]:
    request = _make_request(run, operator)
    own = Store(folder / "own")
    began = time.perf_counter()
    with Server(folder / "job") as server, server.serving(POLL_S):
        task = get_task(open_store(server.url, own.path), request.terms)
    fetched = time.perf_counter()
    size = sum(size for _, size in own.list())
    again = Run(task, Behaviour(), own)
    again.compute()
    computed = time.perf_counter()
    _check(rule(again, request.terms, request.board, request.claims))
    return {
        "operator": operator,
        "bytes": size,
        "fetching_seconds": fetched - began,
        "running_seconds": computed - fetched,
        "ruling_seconds": time.perf_counter() - computed,
    }


def _check(outcome: Outcome) -> None:
    if outcome is not Outcome(0):
        raise VerifierError(f"the ruling is {outcome.name}; it should be for side 0")
