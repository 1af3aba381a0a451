"""The checks of a job that a provider makes before it joins, so that honest work can't be lost.

The client publishes its program in its file form, the start state and the data. Everything that is
committed to is computed again from these; nothing that the client says is believed.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from moot.contracts.model.leaf import Context, compute_leaf, read_node
from moot.contracts.model.types import ZERO, Address, Facts, Job
from moot.contracts.reasons import LeafMode, Revert
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.chain import Chain
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.disputes.joining.conditions import (
    LEAST_S,
    Conditions,
    Finding,
    check_cost,
    check_length,
    check_size,
    check_terms,
    check_time,
    check_worth,
    compare,
    count_left,
    has_problem,
)
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.referee.code import compare_codes
from moot.offchain.disputes.referee.crowds import (
    Pace,
    calculate_least_clock,
    count_calls,
    count_censored,
    count_lost,
)
from moot.offchain.disputes.referee.gas import REVEAL_GAS
from moot.offchain.errors import LogError, MootError, ProgramError, WrongComputation
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Program, Slot
from moot.offchain.programs.rounding.entries import encode_log
from moot.offchain.programs.semantics import finish
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.batches import RuledBatches, StoredBatches
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.logs import read_logs
from moot.offchain.providers.rates import estimate_timing
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.text import clean

LOOK_BLOCKS = 2
"""An answer is in the block after the next at the latest, if making it takes no time."""
TRIAL_STEPS = 4
"""Steps that are run before a job is joined: enough to try its operators and to see their speed.

Elements of all of them are compared with their definition.
"""
TOGETHER_BYTES = 1 << 28
"""Outputs of a step that are held at once while their leaves are tried."""


@dataclass(frozen=True)
class Agreement(Conditions):
    """The terms of a job that a provider agrees to, on its conditions.

    Attributes:
        program: the program's file form, as the client has published it.
        initial_state: the start state, arrays in the order of the program's state slots.
        batch: the batch of a step, arrays in the order of the program's batch slots.
        steps: the number of steps.
        checkpoint_every: steps from one checkpoint to the next.
        log: the published rounding log of a step, None without one.
    """

    program: bytes
    initial_state: Sequence[Array]
    batch: Callable[[int], Sequence[Array]]
    steps: int
    checkpoint_every: int
    log: Callable[[int], bytes | None] = lambda _: None


def agree_on(task: Task, conditions: Conditions) -> Agreement:
    """Return the agreement to run a task, such as a store has it, on some conditions."""
    root, logs = task.commitment.header.root, task.logs
    return Agreement(
        program=encode_program(task.program),
        initial_state=task.initial_state,
        batch=task.batch,
        steps=task.steps,
        checkpoint_every=task.checkpoint_every,
        log=lambda step: None if logs is None else encode_log(logs[step], root, step),
        **{it.name: getattr(conditions, it.name) for it in fields(Conditions)},
    )


def check_job(chain: Chain, referee: Address, job: Job, agreed: Agreement) -> list[Finding]:
    """Check a job of a referee; it may be joined if no finding has a problem.

    What costs least is looked at first, and after a problem nothing that costs more.

    Args:
        chain: where the referee stands.
        referee: its address.
        job: the job, as the referee has it.
        agreed: what the provider agrees to.

    Raises:
        ChainError: the chain fails.
    """
    findings: list[Finding] = []
    for stage in _list_stages(chain, referee, job, agreed):
        findings += stage
        if has_problem(findings):
            break
    return findings


def _list_stages(
    chain: Chain, referee: Address, job: Job, agreed: Agreement
) -> Iterator[Iterable[Finding]]:
    """Yield the stages of a check; each counts on those before it."""
    length = check_length(job, agreed.steps, agreed.checkpoint_every)
    yield [*length, *check_size(job.terms, agreed), *check_terms(job, agreed)]
    try:
        program = decode_program(agreed.program)
    except ProgramError as error:
        yield [Finding("program", str(error))]
        return
    yield [Finding("program", None)]
    yield check_cost(job.terms, program, agreed)
    yield check_worth(job, program, agreed, chain.block_number())
    if not agreed.joins_late:
        yield [_check_reveal(chain.node.get_block_gas(), job, agreed)]
    yield [_check_clock(chain.node.get_block_gas(), job, agreed, bound_answer(program, agreed))]
    yield [Finding(*it) for it in compare_codes(chain, referee, program.arithmetic)]
    name, is_ruled = program.arithmetic.name, job.terms.leaf_mode is LeafMode.OPERATOR
    unknown = f"no contract computes a scalar operation of `{name}`; ask for the leaf operator"
    yield [_check(program.arithmetic.ends_on_chain or is_ruled, "arithmetic", unknown)]
    yield [Finding("start", _find_misfit(program.state, agreed.initial_state))]
    yield [Finding("data", _find_wrong_batch(program, agreed))]
    task = _make_task(program, agreed, agreed.steps)
    yield _check_program(job, task)
    yield [compare("start_root", job.terms.start_root, task.start_root)]
    data = task.data_tree
    yield [compare("data_top", job.terms.data_top, data.top if data else ZERO)]
    if program.arithmetic == LOGGED:
        try:
            task = read_logs(task, [agreed.log(step) for step in range(task.steps)])
        except LogError as error:
            yield [Finding("logs", str(error))]
            return
        yield [Finding("logs", None)]
    yield _try(chain, job, agreed, task)


def _try(chain: Chain, job: Job, agreed: Agreement, task: Task) -> Iterator[Finding]:
    """Run the first steps, try leaves of them, and compare the time that they take."""
    with tempfile.TemporaryDirectory(prefix="moot-") as folder:
        steps = min(agreed.steps, agreed.checkpoint_every, TRIAL_STEPS)
        trial = replace(_make_task(task.program, agreed, steps), logs=task.logs)
        store = Store(Path(folder), is_durable=False)
        run = Run(trial, Behaviour(), store, backend=agreed.backend)
        yield (drawn := check_drawn_steps(run))
        if drawn.problem:
            return
        yield (leaves := _check_leaves(run))
        if leaves.problem:
            return
        started = time.perf_counter()
        run.interval(0)
        step_s = (time.perf_counter() - started) / steps
        started = time.perf_counter()
        run.trace(trial.steps - 1)
        trace_s = time.perf_counter() - started
    left = count_left(job, chain.block_number(), joins_late=agreed.joins_late)
    yield check_time("speed", step_s * agreed.steps, agreed.block_seconds, left)
    answer_s = step_s * agreed.checkpoint_every + trace_s
    found = _check_clock(chain.node.get_block_gas(), job, agreed, answer_s)
    yield replace(found, item="answers")


def bound_answer(program: Program, agreed: Agreement) -> float:
    """Return the most seconds that an answer in a match of a job takes, whatever its values are."""
    return estimate_timing(program).bound_answer(agreed.checkpoint_every)


def _check(is_met: bool, item: str, problem: str) -> Finding:  # noqa: FBT001 - reads as a sentence
    return Finding(item, None if is_met else problem)


def _find_wrong_batch(program: Program, agreed: Agreement) -> str | None:
    """Return which batch does not fit the program's slots; those of a store were made to."""
    batch = agreed.batch
    if isinstance(batch, StoredBatches | RuledBatches):
        same = [(it.dtype, it.shape) for it in batch.slots]
        wanted = [(it.dtype, it.shape) for it in program.batch]
        return None if same == wanted else "they were made for another program"
    misfits = (_find_misfit(program.batch, batch(step)) for step in range(agreed.steps))
    return next((misfit for misfit in misfits if misfit), None)


def _find_misfit(slots: Sequence[Slot], arrays: Sequence[Array]) -> str | None:
    if len(slots) != len(arrays):
        return f"{len(arrays)} tensors are published for {len(slots)} slots"
    for slot, array in zip(slots, arrays, strict=True):
        if (str(array.dtype), array.shape) != (slot.dtype.name.lower(), slot.shape):
            found = f"{array.dtype} of shape {array.shape}"
            wanted = f"{slot.dtype.name.lower()} {slot.shape}"
            return f"{clean(slot.name)} is {found}, and has to be {wanted}"
    return None


def _make_task(program: Program, agreed: Agreement, steps: int) -> Task:
    every = min(agreed.checkpoint_every, steps)
    return Task(program, agreed.initial_state, agreed.batch, steps, every)


def _check_program(job: Job, task: Task) -> Iterator[Finding]:
    """Compare what the terms say of the program with the one that was published."""
    terms, header = job.terms, task.commitment.header
    yield compare("operators", terms.operators, header.operators)
    yield compare("state_slots", terms.state_slots, header.state_slots)
    yield compare("batch_slots", terms.batch_slots, header.batch_slots)
    yield compare("layout", terms.layout, header.layout)
    yield compare("program_top", terms.program_top, header.top)


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
            name = clean(program.names[operator])
            return Finding("leaves", f"operator {operator}, {name}: {clean(reason)}")
    return Finding("leaves", None)


def check_drawn_steps(run: Run) -> Finding:
    """Run a task, and compare drawn elements of drawn steps with their definition."""

    def make_audit(program: Program, steps: range) -> Audit:
        return Audit(program, steps, TRIAL_STEPS)

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
        read_node(task.commitment.encodings[operator], task.program.arithmetic),
        leaf.evidence,
    )
    output = encode_elements(run.outputs(0, [operator])[operator]).tobytes()
    claimed = int.from_bytes(output[element * width : (element + 1) * width], "little")
    if node.kind.folds and node.fold_length:
        computed = finish(task.program.arithmetic, node, computed)
    return computed == claimed


def _check_reveal(block_gas: int, job: Job, agreed: Agreement) -> Finding:
    """Compare the time to show a claim with what an adversary may take of it.

    A claim that is never shown loses its bond, which nobody gets: a censor gains the reward.
    """
    least = LOOK_BLOCKS + count_lost(
        job.reward_wei,
        block_gas=block_gas,
        confirmations=agreed.confirmations,
        offered_gas=REVEAL_GAS,
    )
    problem = (
        f"there are {job.terms.reveal_blocks} blocks to show a claim, and it takes {least}, with "
        "those for which the reward would pay whoever keeps calls out, and "
        f"{agreed.confirmations} that a reorganisation may take"
    )
    return _check(job.terms.reveal_blocks >= least, "reveal_time", problem)


def _check_clock(block_gas: int, job: Job, agreed: Agreement, answer_s: float) -> Finding:
    """Compare the clock with the shortest that withstands the crowd, given the time of an answer.

    Each member of a crowd may dispute another step, so that as many answers are made in a round.
    Before that it has to outlast as many blocks as what there is to gain would pay a censor for,
    and those that a reorganisation may take with the calls in them.
    """
    terms, answers = job.terms, min(agreed.crowd, job.terms.steps)
    delay = LOOK_BLOCKS + math.floor(answers * answer_s / max(agreed.block_seconds, LEAST_S))
    pace = Pace(count_calls(block_gas), delay)
    censored = count_censored(job.reward_wei + terms.prize_wei, block_gas=block_gas)
    lost = censored + agreed.confirmations
    least = lost + calculate_least_clock(agreed.crowd, terms.increment_blocks, pace)
    problem = (
        f"the clock has {terms.clock_blocks} blocks, and {agreed.crowd} members of a claim, "
        f"answered {delay} blocks after they move, take {least}, with {censored} for which reward "
        f"and prize would pay whoever keeps calls out, and {agreed.confirmations} that a "
        f"reorganisation may take: its client posts it with --clock-blocks {least} or more"
    )
    return _check(terms.clock_blocks >= least, "clock_blocks", problem)
