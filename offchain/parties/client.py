"""A client: it publishes a task, opens its job, sees it to its end, and fetches the result."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from moot.contracts.model.types import NOBODY, Job, Terms
from moot.contracts.reasons import LeafMode, Status
from moot.offchain.chain import Address
from moot.offchain.chain.head import Head
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, hash_root
from moot.offchain.datastore.objects import BATCHES, HISTORIES, PROGRAMS, RULES, STATES
from moot.offchain.datastore.rules import decode_rule
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.availability.demands import Answerer
from moot.offchain.disputes.play.actors import Client
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import Call, Outcome
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import CommitmentError, NotInStore, StoreError, UsageError
from moot.offchain.parties.buying import demand_result, look_after
from moot.offchain.parties.context import Closer, PartyContext
from moot.offchain.parties.deliveries import Deliveries
from moot.offchain.parties.promises import Promises
from moot.offchain.parties.referees import require_decidable
from moot.offchain.parties.settings import to_wei
from moot.offchain.parties.turns import PATIENCE_S, Seat, is_passing, play, take_turns, tell_made
from moot.offchain.programs.graph import Slot
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS
from moot.offchain.providers.publication import get_program, get_task, load_batches, put_task
from moot.offchain.providers.task import Task
from moot.offchain.training import claim as training
from moot.offchain.training.claim import get_claimed_task, list_claims

_ONE_OF = (PROGRAMS, STATES, BATCHES, RULES)
DEFAULT_EVERY = 4

_FATES = {
    Status.EMPTY: ", no claim was left, and the reward is back; providers say why they leave a job",
    Status.VOID: ", its program is not legal, and everybody gets back what it has brought",
}
"""What became of a job that nobody has won, for those who wait for its end."""


def post(
    context: PartyContext, task: Task, stakes: Stakes, leaf_mode: LeafMode = LeafMode.SCALAR
) -> int:
    """Publish a task, and open its job; return the job's number.

    Args:
        context: where the client works; its settings name the verifier, if there has to be one.
        task: the task.
        stakes: money and clocks.
        leaf_mode: who decides the leaves.

    Raises:
        UsageError: nobody could decide such a job at this referee; nothing was published or paid.
        RefereeError, ChainError: the job is not accepted; the task is published all the same.
    """
    context.settings.require("store", *(("verifier",) if leaf_mode is LeafMode.OPERATOR else ()))
    arithmetic = task.program.arithmetic
    if leaf_mode is LeafMode.SCALAR and not arithmetic.ends_on_chain:
        raise UsageError(
            f"no contract computes a scalar operation of `{arithmetic.name}`; choose the leaf "
            "operator, and a verifier"
        )
    require_decidable(context.chain, Address(context.referee.address), arithmetic)
    promises = Promises(context) if context.settings.promise_bond else None
    deliveries = Deliveries(context) if context.settings.premium else None
    put_task(open_store(context.settings.store, context.folder / "published"), task)
    verifier = context.settings.verifier if leaf_mode is LeafMode.OPERATOR else NOBODY
    terms = make_terms(task, stakes, leaf_mode, verifier)
    call = Call("open_job", context.address, (terms,), stakes.reward_wei, "client")
    (answer,) = context.referee.transact_all([call])
    if not isinstance(answer, Outcome):
        raise answer
    job_id = int(str(answer.events[0].args[0]))
    context.tell("opened", f"job {job_id} is open", job=job_id)
    if promises is not None:
        promises.make(job_id, context.find_job(job_id), to_wei(context.settings.promise_bond))
    if deliveries is not None:
        premium_wei, window_blocks = (
            to_wei(context.settings.premium),
            context.settings.premium_window,
        )
        deliveries.offer(job_id, context.find_job(job_id), premium_wei, window_blocks)
    return job_id


def await_end(context: PartyContext, job_id: int) -> Status:
    """Begin the matches that are needed, settle the job, and return how it ended.

    Meanwhile what others demand is shown, if the client has promised that the job can be had.
    """
    view = context.view(job_id)
    answer = _make_answerer(context, job_id, view.job)
    play(context, view, Party((), [Client("client", context.address, ())]), answer)
    status = view.job.status
    line = f"job {job_id}: {status.name.lower()}{_FATES.get(status, '')}"
    context.tell("closed", line, job=job_id, status=status.name.lower())
    if context.settings.delivery:
        look_after(context, job_id, view.job, calls=False)
    return status


def _make_answerer(context: PartyContext, job_id: int, job: Job) -> Callable[[], None]:
    """Return what shows the parts of a job that are demanded, and takes the promise's bond back."""
    promises = Promises(context) if context.settings.availability else None
    if promises is None or promises.look(job_id, job) is None:
        return _do_nothing
    known: list[Task] = []

    def answer() -> None:
        view = promises.look(job_id, job)
        if view is None or not (view.list_open() or view.block > view.promise.last_block):
            return
        if not known:
            context.settings.require("store")
            folder = context.folder / f"job-{job_id}"
            known.append(get_task(open_store(context.settings.store, folder), job.terms))
        promises.send(Answerer(context.address, known[0]).act(view))

    return answer


def _do_nothing() -> None:
    pass


def settle(context: PartyContext, job_id: int) -> Status:
    """End what can be ended in a job now, take the money that is owed, and return how it stands.

    Nothing is begun and nothing is waited for but the blocks of these calls. If the job was closed
    before, a result is called for that nobody has promised.
    """
    view = context.view(job_id)
    was_closed = view.job.status is not Status.OPEN
    seat = Seat(view, Party((), [Closer("client", context.address, ())]))
    while turn := take_turns(context, [seat]):
        for _, made in turn:
            tell_made(context, seat, made)
            if not isinstance(made.answer, Outcome) and not is_passing(made.answer):
                raise made.answer
        context.referee.look()
        view.look()
    status = view.job.status
    _make_answerer(context, job_id, view.job)()
    if status is Status.OPEN:
        block = view.block - 1 + _count_blocks(view)
        line = f"job {job_id} is open; nothing more of it ends before block {block}"
    else:
        line = f"job {job_id}: {status.name.lower()}; nothing is owed to {context.address}"
    context.tell("settled", line, job=job_id, status=status.name.lower())
    if context.settings.delivery:
        look_after(context, job_id, view.job, calls=was_closed)
    return status


def _count_blocks(view: ChainView) -> int:
    """Return how many blocks pass until something of a job may end, if need be a new match."""
    try:
        return view.count_idle_blocks()
    except ValueError:
        return view.job.terms.clock_blocks


def read_task(folder: Path, checkpoint_every: int | None) -> Task:
    """Return the task that a folder holds, as `moot program publish` or `moot train` leaves it.

    Args:
        folder: a store with one training; or with one program, one state, and the batches of its
            steps, or their rule.
        checkpoint_every: steps from one checkpoint to the next; if it is None, as it was trained,
            or the greatest that is at most 4 and fits.

    Raises:
        UsageError: the folder does not hold exactly one task.
        StoreError: the folder is damaged.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; make one by `moot program publish NAME {folder}`")
    store = open_store(str(folder))
    if list_claims(store):
        trained = get_claimed_task(store, training.get_claim(store))
        every = trained.checkpoint_every if checkpoint_every is None else checkpoint_every
        return get_task(store, make_terms(replace(trained, checkpoint_every=every)))
    found: dict[str, list[tuple[Digest, int]]] = {kind: [] for kind in _ONE_OF}
    for name, size in store.list():
        kind, _, root = name.partition("/")
        if kind in found:
            found[kind].append((bytes.fromhex(root), size))
    wrong = next((kind for kind, objects in found.items() if len(objects) > 1), None)
    if wrong is not None or not (found[PROGRAMS] and found[STATES]):
        what = f"several {wrong}" if wrong else "no program with its start"
        raise UsageError(f"{folder} holds {what}; publish one job into a folder of its own")
    ((program_root, _),), ((start_root, _),) = found[PROGRAMS], found[STATES]
    program = store.get_program(program_root, MAX_OPERATORS, MAX_SLOTS)
    start = store.get_state(start_root, program.state)
    data_root, steps = bytes(32), 1
    if found[RULES]:
        ((data_root, size),) = found[RULES]
        steps = decode_rule(store.get_bytes(RULES, data_root, size, decode_rule)).steps
    elif found[BATCHES]:
        ((data_root, size),) = found[BATCHES]
        steps = size // DIGEST_BYTES // max(1, len(program.batch))
    batch = load_batches(store, program.batch, steps, data_root)
    every = min(steps, DEFAULT_EVERY) if checkpoint_every is None else checkpoint_every
    task = Task(program, start, batch, steps, every)
    return get_task(store, make_terms(task))  # with the logs, if there have to be any


def get_claim(context: PartyContext, job_id: int) -> Digest:
    """Return the claim that has won a job."""
    view = context.view(job_id)
    if view.job.status is not Status.WON:
        raise UsageError(
            f"job {job_id} is {view.job.status.name.lower()}; only one that is won has a result"
        )
    (claim,) = view.tournament.get_claims()
    return claim


def fetch(context: PartyContext, job_id: int, folder: Path, urls: Sequence[str]) -> Digest:
    """Fetch the final state of a job into a folder, which is a store; return the state's root.

    What comes is verified against the claim that has won. Winners serve it some blocks after the
    job was won, and for so long it is waited for. What nobody serves is demanded on the chain, if
    the settings have money for that.

    Args:
        context: where the client works.
        job_id: the job.
        folder: the folder.
        urls: where providers serve their results; the first that has this one is used.

    Raises:
        UsageError: the job is not won.
        StoreError: nobody serves the result or hands it over.
    """
    job, claim = context.find_job(job_id), get_claim(context, job_id)
    terms = job.terms
    slots = _find_slots(context, terms, folder)
    fetch_once = lambda url: _fetch_from(url, folder, terms, claim, slots)  # noqa: E731 - one line
    found, problems = _try_places(context, urls, fetch_once)
    if found is not None:
        root, url = found
        line = f"job {job_id}: state {root.hex()} is in {folder}, as the winning claim has it"
        context.tell("fetched", line, job=job_id, state=root.hex(), url=url)
        return root
    if context.settings.demand_budget:
        context.settings.require("store", "delivery")
        assert slots is not None, "there is a store"
        root = demand_result(context, job_id, job, folder, slots)
        line = f"job {job_id}: state {root.hex()} is in {folder}, as it was shown on the chain"
        context.tell("fetched", line, job=job_id, state=root.hex(), url="")
        return root
    raise StoreError(f"nobody serves the result of job {job_id}: {'; '.join(problems) or 'no url'}")


def _try_places(
    context: PartyContext, urls: Sequence[str], fetch_from: Callable[[str], Digest]
) -> tuple[tuple[Digest, str] | None, list[str]]:
    """Return a result and where it was had, or nothing; and why others were of no use.

    A place that has nothing yet is asked again, once a block, until winners have served it.
    """
    patience_blocks = context.settings.confirmations + context.settings.stand_in_blocks
    head, problems = Head(context.chain), dict[str, str]()
    end = head.number + patience_blocks
    while True:
        is_awaited = False
        for url in urls:
            try:
                return (fetch_from(url), url), []
            except (StoreError, CommitmentError) as error:
                problems[url] = str(error)
                is_awaited |= isinstance(error, NotInStore)
        if not is_awaited or head.number >= end or head.follow(PATIENCE_S) is None:
            break
    for url, problem in problems.items():
        context.tell("refused", f"{url} is of no use: {problem}", url=url)
    return None, [*problems.values()]


def _find_slots(context: PartyContext, terms: Terms, folder: Path) -> Sequence[Slot] | None:
    """Return what a state of the job looks like, if its program is at hand."""
    if not context.settings.store:
        return None
    return get_program(open_store(context.settings.store, folder), terms).state


def _fetch_from(
    url: str, folder: Path, terms: Terms, claim: Digest, slots: Sequence[Slot] | None
) -> Digest:
    count = -(-terms.steps // terms.checkpoint_every)
    store = open_store(url, folder)
    history = hash_root(Tag.HISTORY_ROOT, count, claim)
    root = store.get_roots(HISTORIES, history, count)[-1]
    store.fetch_state(root, slots)
    return root
