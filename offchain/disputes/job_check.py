"""The checks of a job that a provider makes before it joins, so that honest work can't be lost.

The client publishes its program in its file form, the start state and the data. Everything that is
committed to is computed again from these; nothing that the client says is believed.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contracts.model.leaf import Context, compute_leaf, read_node
from contracts.model.types import NOBODY, ZERO, Address, Facts, Job
from contracts.reasons import LeafMode, Revert, Status
from offchain.arithmetic.logged import LOGGED
from offchain.chain import Chain
from offchain.commitments.tensors import Array, encode_elements
from offchain.disputes.crowds import Pace, calculate_least_clock, count_calls
from offchain.disputes.openings import make_leaf
from offchain.disputes.referee_code import compare_codes
from offchain.errors import LogError, MootError, ProgramError, WrongComputation
from offchain.programs.decoding import decode_program
from offchain.programs.encoding import encode_program
from offchain.programs.graph import Program, Slot
from offchain.programs.rounding.entries import encode_log
from offchain.programs.semantics import finish
from offchain.providers.audit import Audit
from offchain.providers.behaviour import Behaviour
from offchain.providers.logs import read_logs
from offchain.providers.run import Run
from offchain.providers.store import Store
from offchain.providers.task import Task

LOOK_BLOCKS = 2
"""An answer is in the block after the next at the latest, if making it takes no time."""
DRAWN_STEPS = 4
"""Steps of the first interval of which elements are compared with their definition."""
TOGETHER_BYTES = 1 << 28
"""Outputs of a step that are held at once while their leaves are tried."""


@dataclass(frozen=True)
class Agreement:
    """The terms of a job that a provider agrees to.

    Attributes:
        program: the program's file form, as the client has published it.
        initial_state: the start state, arrays in the order of the program's state slots.
        batch: the batch of a step, arrays in the order of the program's batch slots.
        steps: the number of steps.
        checkpoint_every: steps from one checkpoint to the next.
        leaf_mode: who decides the leaves.
        verifier: the account that posts rulings.
        most_bond_wei: the highest bond.
        least_reward_wei: the lowest reward.
        least_window_blocks: the shortest time to reveal, and to join what has met.
        crowd: how many members of one claim the clocks have to withstand.
        block_seconds: the time between blocks.
        log: the published rounding log of a step, None without one.
    """

    program: bytes
    initial_state: Sequence[Array]
    batch: Callable[[int], Sequence[Array]]
    steps: int
    checkpoint_every: int
    leaf_mode: LeafMode = LeafMode.SCALAR
    verifier: Address = NOBODY
    most_bond_wei: int = 10**18
    least_reward_wei: int = 0
    least_window_blocks: int = 16
    crowd: int = 100
    block_seconds: float = 12.0
    log: Callable[[int], bytes | None] = lambda _: None


def agree_on(task: Task, **conditions: Any) -> Agreement:
    """Return the agreement to run a task, such as a store has it, on some conditions."""
    root, logs = task.commitment.header.root, task.logs
    return Agreement(
        program=encode_program(task.program),
        initial_state=task.initial_state,
        batch=task.batch,
        steps=task.steps,
        checkpoint_every=task.checkpoint_every,
        log=lambda step: None if logs is None else encode_log(logs[step], root, step),
        **conditions,
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one item of the check: `problem` is one line, or None if the item holds."""

    item: str
    problem: str | None


def check_job(chain: Chain, referee: Address, job: Job, agreed: Agreement) -> list[Finding]:
    """Check a job of a referee; it may be joined if no finding has a problem.

    Items that need a program are left out where the published one is none.

    Args:
        chain: where the referee stands.
        referee: its address.
        job: the job, as the referee has it.
        agreed: what the provider agrees to.

    Raises:
        ChainError: the chain fails.
    """
    findings = list(_check_terms(job, agreed))
    findings.append(_check(is_open := job.status is Status.OPEN, "status", "the job is closed"))
    try:
        program = decode_program(agreed.program)
    except ProgramError as error:
        return [*findings, Finding("program", str(error))]
    findings.append(Finding("program", None))
    codes = compare_codes(chain, referee, program.arithmetic)
    findings += [Finding(name, problem) for name, problem in codes]
    name, is_ruled = program.arithmetic.name, job.terms.leaf_mode is LeafMode.OPERATOR
    unknown = f"no contract computes a scalar operation of `{name}`; ask for the leaf operator"
    findings.append(_check(program.arithmetic.ends_on_chain or is_ruled, "arithmetic", unknown))
    fits = list(_check_slots(program, agreed))
    findings += fits
    if any(finding.problem for finding in fits):
        return findings
    task = _make_task(program, agreed, agreed.steps)
    findings += _check_roots(job, task)
    if program.arithmetic == LOGGED:
        try:
            task = read_logs(task, [agreed.log(step) for step in range(task.steps)])
        except LogError as error:
            return [*findings, Finding("logs", str(error))]
        findings.append(Finding("logs", None))
    with tempfile.TemporaryDirectory(prefix="moot-") as folder:
        steps = min(agreed.steps, agreed.checkpoint_every)
        trial = replace(_make_task(program, agreed, steps), logs=task.logs)
        run = Run(trial, Behaviour(), Store(Path(folder), is_durable=False))
        findings.append(drawn := check_drawn_steps(run))
        if drawn.problem:
            return findings
        findings.append(_check_leaves(run))
        started = time.perf_counter()
        run.interval(0)
        ran_s = time.perf_counter() - started
        run.trace(trial.steps - 1)
        answer_s = time.perf_counter() - started
    blocks = math.ceil(ran_s / trial.steps * agreed.steps / agreed.block_seconds)
    left = job.commit_deadline - chain.block_number() if is_open else 0
    late = f"the run takes about {blocks} blocks, and {max(left, 0)} are left to commit"
    findings.append(_check(blocks < left, "commit_blocks", late))
    findings.append(_check_clock(chain.node.get_block_gas(), job, agreed, answer_s))
    return findings


def _check(is_met: bool, item: str, problem: str) -> Finding:  # noqa: FBT001 - reads as a sentence
    return Finding(item, None if is_met else problem)


def _compare(item: str, found: object, wanted: object) -> Finding:
    shown = (it.hex() if isinstance(it, bytes) else str(it) for it in (found, wanted))
    return _check(found == wanted, item, "the job has {}, and {} is right".format(*shown))


def _check_terms(job: Job, agreed: Agreement) -> Iterator[Finding]:
    """Compare the terms that no program is needed for with those agreed to."""
    terms = job.terms
    yield _compare("steps", terms.steps, agreed.steps)
    yield _compare("checkpoint_every", terms.checkpoint_every, agreed.checkpoint_every)
    yield _compare("leaf_mode", terms.leaf_mode.name.lower(), agreed.leaf_mode.name.lower())
    yield _compare("verifier", terms.verifier.lower(), agreed.verifier.lower())
    most, least = agreed.most_bond_wei, agreed.least_reward_wei
    bond, reward = terms.bond_wei, job.reward_wei
    yield _check(bond <= most, "bond_wei", f"the bond is {bond}, above {most}")
    yield _check(reward >= least, "reward_wei", f"the reward is {reward}, below {least}")
    for name in ("reveal_blocks", "window_blocks"):
        blocks, wanted = getattr(terms, name), agreed.least_window_blocks
        yield _check(blocks >= wanted, name, f"they are {blocks}, fewer than {wanted}")


def _check_slots(program: Program, agreed: Agreement) -> Iterator[Finding]:
    """Compare types and shapes of the start and of every batch with the program's slots."""
    yield Finding("start", _find_misfit(program.state, agreed.initial_state))
    misfits = (_find_misfit(program.batch, agreed.batch(step)) for step in range(agreed.steps))
    yield Finding("data", next((misfit for misfit in misfits if misfit), None))


def _find_misfit(slots: Sequence[Slot], arrays: Sequence[Array]) -> str | None:
    if len(slots) != len(arrays):
        return f"{len(arrays)} tensors are published for {len(slots)} slots"
    for slot, array in zip(slots, arrays, strict=True):
        if (str(array.dtype), array.shape) != (slot.dtype.name.lower(), slot.shape):
            found = f"{array.dtype} of shape {array.shape}"
            return f"{slot.name} is {found}, and has to be {slot.dtype.name.lower()} {slot.shape}"
    return None


def _make_task(program: Program, agreed: Agreement, steps: int) -> Task:
    every = min(agreed.checkpoint_every, steps)
    return Task(program, agreed.initial_state, agreed.batch, steps, every)


def _check_roots(job: Job, task: Task) -> Iterator[Finding]:
    """Compare what the terms commit to with what is computed from what was published."""
    terms, header, data = job.terms, task.commitment.header, task.data_tree
    yield _compare("operators", terms.operators, header.operators)
    yield _compare("state_slots", terms.state_slots, header.state_slots)
    yield _compare("batch_slots", terms.batch_slots, header.batch_slots)
    yield _compare("layout", terms.layout, header.layout)
    yield _compare("program_top", terms.program_top, header.top)
    yield _compare("start_root", terms.start_root, task.start_root)
    yield _compare("data_top", terms.data_top, data.top if data else ZERO)


def _check_leaves(run: Run) -> Finding:
    """Try a leaf of every operator on the model: what is claimed has to be what it computes."""
    program, together = run.task.program, _share_out(run.task.program)
    for operator in range(len(program.nodes)):
        if operator in together:
            run.outputs(0, together[operator])
        element = _choose_element(run.task, operator)
        if element is None:
            continue
        try:
            is_right = _try_leaf(run, operator, element)
        except (Revert, MootError) as error:
            is_right, reason = False, str(error)
        else:
            reason = "the model computes something else than the executor"
        if not is_right:
            return Finding("leaves", f"operator {operator}, {program.names[operator]}: {reason}")
    return Finding("leaves", None)


def check_drawn_steps(run: Run) -> Finding:
    """Run a task, and compare drawn elements of drawn steps with their definition."""

    def make_audit(program: Program, steps: range) -> Audit:
        return Audit(program, steps, DRAWN_STEPS)

    try:
        run.compute(audit=make_audit)
    except WrongComputation as error:
        return Finding("steps_drawn", str(error))
    return Finding("steps_drawn", None)


def _share_out(program: Program) -> dict[int, range]:
    """Return by its first operator each range whose outputs are had from one execution of a step.

    With all that they read, they fit into TOGETHER_BYTES, or the range has one operator.
    """
    sizes = [node.elements * node.dtype.width for node in program.nodes]
    first, held, ranges = 0, set[int](), {}
    for operator, node in enumerate(program.nodes):
        more = held | {operator, *node.inputs}
        if held and sum(sizes[it] for it in more) > TOGETHER_BYTES:
            ranges[first] = range(first, operator)
            first, more = operator, {operator, *node.inputs}
        held = more
    ranges[first] = range(first, len(program.nodes))
    return ranges


def _choose_element(task: Task, operator: int) -> int | None:
    """Return the last element of an operator that is no matter of the first step's log, if any."""
    entries = task.logs[0].operators.get(operator, ()) if task.logs else ()
    named = {element for element, _ in entries}
    elements = reversed(range(task.program.nodes[operator].elements))
    return next((element for element in elements if element not in named), None)


def _try_leaf(run: Run, operator: int, element: int) -> bool:
    """Play the last scalar operation of an element; return whether its result is the output's."""
    task, node = run.task, run.task.program.nodes[operator]
    width = node.dtype.width
    low = low_bits = 0
    if node.kind.folds and node.fold_length:
        low = node.fold_length - 1
        partials = run.partials(0, operator, element)
        low_bits = int.from_bytes(encode_elements(partials[low : low + 1]).tobytes(), "little")
    facts = Facts(operator=operator, element=element, low=low, high=low + 1, low_bits=low_bits)
    leaf, header, data = make_leaf(run, facts), task.commitment.header, task.data_tree
    context = Context(
        trace_top=run.trace(0).top,
        operators=header.operators,
        before=task.start_root,
        state_slots=header.state_slots,
        data_top=data.top if data else ZERO,
        batch_slots=header.batch_slots,
        steps=task.steps,
        step=0,
        element=element,
        position=low,
        accumulator=low_bits,
    )
    computed = compute_leaf(
        task.program.arithmetic,
        context,
        read_node(task.commitment.encodings[operator]),
        leaf.evidence,
    )
    output = encode_elements(run.outputs(0, [operator])[operator]).tobytes()
    claimed = int.from_bytes(output[element * width : (element + 1) * width], "little")
    if node.kind.folds and node.fold_length:
        computed = finish(task.program.arithmetic, node, computed)
    return computed == claimed


def _check_clock(block_gas: int, job: Job, agreed: Agreement, answer_s: float) -> Finding:
    """Compare the clock with the shortest that withstands the crowd, answering as fast as here."""
    delay = LOOK_BLOCKS + math.floor(answer_s / agreed.block_seconds)
    pace = Pace(count_calls(block_gas), delay)
    terms = job.terms
    least = calculate_least_clock(agreed.crowd, terms.increment_blocks, pace)
    problem = (
        f"the clock has {terms.clock_blocks} blocks, and {agreed.crowd} members of a claim, "
        f"answered {delay} blocks after they move, take {least}"
    )
    return _check(terms.clock_blocks >= least, "clock_blocks", problem)
