"""The tables that a simulated market leaves: their columns, types and units.

Money is in gwei (10^-9 ETH), prices of gas in wei, time in blocks; what a chain has charged and
paid is in wei (10^-18 ETH). `run` is a run's number in its
folder: 0 for `moot market`, and one for each repetition of each setting for `moot sweep`.
"""

from collections.abc import Mapping

import pyarrow as pa

_INT, _TEXT, _BOOL, _FLOAT = pa.int64(), pa.string(), pa.bool_(), pa.float64()
_NAME = pa.dictionary(pa.int32(), _TEXT)
"""A text of which there are few."""

_WEI = pa.decimal128(38, 0)
"""A whole number of wei; 64 bits hold no more than 9 ETH."""

STAGES = ("joining", "history", "trace", "tensor", "fold", "leaf", "payout")
"""The stages of a game, in order; gas is counted to each of them."""


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("run", _INT), *(pa.field(n, t) for n, t in types.items())])


JOBS = _columns(
    job=_INT,  # the job's number, in the order of arrival
    arrived=_INT,  # block
    settled=_INT,  # block; that of arrival for a job that nobody served
    client=_INT,  # agent; a provider that has opened the job itself, if that is its trick
    provider=_INT,  # agent: the first that was chosen; null if nobody served
    strategy=_NAME,  # of that provider
    reputation=_FLOAT,  # of that provider when the job is settled, before the job changes it
    conduct=_NAME,  # what it did in this job: a name in `sim/strategies.py`; `forced-error`
    seats=_INT,  # providers that ran the job
    value_gwei=_INT,  # what a right answer is worth to the client
    price_gwei=_INT,  # what it pays, to all providers together
    bond_gwei=_INT,  # of each provider
    is_cheated=_BOOL,  # whether a provider did something else than what is agreed
    is_audited=_BOOL,  # whether a watcher says in time that it has checked it
    watcher=_INT,  # agent that was asked and did something, the first of them; null if none
    is_checked=_BOOL,  # whether a watcher has recomputed the job in time
    is_disputed=_BOOL,  # whether two claims met
    outcome=_NAME,  # what the client got: right, wrong, void, unserved
    blocks=_INT,  # from the first claim to the payout
    gas=_INT,  # everybody's
    fees_gwei=_INT,  # everybody's, for gas
    burned_gwei=_INT,
    client_gwei=_INT,  # change of its wealth; a client's with the value of the answer
    waited_blocks=_INT,  # for how long calls have waited for a block that they could pay
    missed_clocks=_INT,  # accounts that were too late because of that
    missed_gwei=_INT,  # what all who are worse off for it have less of bonds, prizes and reward
    planned=_NAME,  # the outcome if no call had had to wait; null if nobody served
    reason=_NAME,  # why nobody served; null if somebody did
)
"""One row for each job."""

GAMES = _columns(
    game=_INT,
    job=_INT,
    lineup=_TEXT,  # conducts of all that played, `+` between them
    case=_INT,  # which of the lineup's cases
    fidelity=_NAME,  # modelled or played
    outcome=_NAME,  # right, wrong, void
    moves=_INT,  # accepted calls
    rounds=_INT,  # calls of matches
    blocks=_INT,
    **{f"gas_{stage}": _INT for stage in STAGES},
    played_outcome=_NAME,  # of the same case on the contract; null if it was not played
    **{f"played_gas_{stage}": _INT for stage in STAGES},
    agrees=_BOOL,  # whether both have the same outcome and fates; null if it was not played
)
"""One row for each game in which claims met."""

PARTIES = _columns(
    game=_INT,
    agent=_INT,
    strategy=_NAME,
    conduct=_NAME,  # what it did
    is_right=_BOOL,  # whether its first account has claimed what an honest run does
    gas=_INT,  # of its calls
    fees_gwei=_INT,  # what it paid for that
    lost_gwei=_INT,  # of its bonds
    profit_gwei=_INT,  # change of its wealth by the job
)
"""One row for each party of each game: the providers, and a watcher that was ready to join."""

MOVES = _columns(
    game=_INT,
    move=_INT,  # number in its game
    block=_INT,  # since the job was opened
    stage=_NAME,
    player=_TEXT,
    call=_NAME,
    gas=_INT,
)
"""One row for each call of the first games (`moves_of_games` says of how many)."""

CALLS = _columns(
    job=_INT,
    call=_INT,  # number in its job
    block=_INT,  # since the job was opened
    stage=_NAME,  # of the dispute; `refused` for a call that the contract refused
    player=_TEXT,  # who has made it: client, verifier, or an account of `accounts`
    function=_NAME,  # what was called
    gas=_INT,
    gas_calldata=_INT,  # part of it; null for a refused call
    gas_execution=_INT,  # likewise
    fee_wei=_WEI,  # what was paid for it
)
"""One row for each call of each job that was played on a chain; none if jobs are modelled."""

ACCOUNTS = _columns(
    job=_INT,
    account=_TEXT,  # client, verifier, or CONDUCT-i.k: account k of the i-th with this conduct
    agent=_INT,  # whose it is; null for the verifier
    strategy=_NAME,  # of that agent; null for the verifier
    behaviour=_TEXT,  # what the account has run, with its settings; null if nothing
    is_right=_BOOL,  # whether it has claimed what an honest run does; null if it has run nothing
    fate=_NAME,  # of its bond: won, slashed, refunded; null if it had none
    gas=_INT,  # of its calls, refused ones included
    fees_wei=_WEI,  # what it paid for that
    profit_wei=_WEI,  # change of its balance on the chain, fees paid
)
"""One row for each account of each job that was played on a chain; none if jobs are modelled."""

AGENTS = _columns(
    agent=_INT,
    name=_TEXT,
    role=_NAME,  # client, provider, watcher
    strategy=_NAME,
    entered=_INT,  # block
    left=_INT,  # block; null if it is still there
    is_bankrupt=_BOOL,  # whether it left because it could no longer pay a bond
    jobs=_INT,  # that it took, or checked
    cheated=_INT,  # jobs in which it cheated
    slashed=_INT,  # jobs in which it lost a bond
    forfeits=_INT,  # decisions that its strategy forfeited: raised, took too long, overspent
    capital_gwei=_INT,  # at entry
    profit_gwei=_INT,  # change of its wealth; work, fees and capital paid
    work_gwei=_INT,  # what it paid for computing
    fees_gwei=_INT,  # what it paid for gas
    locked_gwei_blocks=_FLOAT,  # capital that was locked x blocks
    capital_cost_gwei=_INT,  # what it paid for that
    reputation=_FLOAT,  # at the end
)
"""One row for each agent."""

SPANS = _columns(
    span=_INT,  # a twentieth of the jobs, from 0, by their numbers
    first_job=_INT,  # the number of its first job
    is_burn_in=_BOOL,  # whether its jobs are burn-in, which no sum counts
    agent=_INT,
    role=_NAME,  # client, provider, watcher
    strategy=_NAME,
    jobs=_INT,  # of the span that it took, or checked
    cheated=_INT,  # jobs in which it cheated
    slashed=_INT,  # jobs in which it lost a bond
    work_gwei=_INT,  # what it paid for computing
    fees_gwei=_INT,  # what a provider or watcher paid for gas
    locked_gwei_blocks=_FLOAT,  # capital that was locked x blocks
    profit_gwei=_INT,  # change of its wealth by these jobs
)
"""One row for each agent and each span in which it had a job."""

LEDGER = _columns(
    block=_INT,
    base_fee_wei=_INT,
    free_gwei=_INT,  # of all agents
    locked_gwei=_INT,  # bonds and payments of open jobs
    burned_gwei=_INT,
    fees_gwei=_INT,  # paid for gas
    work_gwei=_INT,  # paid for computing
    outside_gwei=_INT,  # less what agents brought; what they took away, censors and capital
    open_jobs=_INT,
    providers=_INT,  # that are there
)
"""One row for each block in which something happened; the money in each adds up to 0."""

EVENTS = _columns(
    block=_INT,
    kind=_NAME,  # entry, exit, bankruptcy, forfeit, late-check, missed-clock
    agent=_INT,
    job=_INT,  # null if it is about none
    detail=_TEXT,
)
"""One row for each thing that is worth a word."""

RECEIPTS = _columns(
    job=_INT,
    client=_INT,  # agent
    provider=_INT,  # agent
    strategy=_NAME,  # of the provider
    chain=_INT,  # on which of the provider's chains it is; an honest provider has one, 0
    number=_INT,  # its running number
    issued=_INT,  # block
    last=_INT,  # the last block in which it can be challenged
    tokens=_INT,  # of the answer
    price_gwei=_INT,
    stake_gwei=_INT,  # what backs it
    open_gwei=_INT,  # the stakes that had not ended, its own among them, as it says
    is_covered=_BOOL,  # whether that is true, so that the bond covered all that was open
    shown_bytes=_INT,  # what the client was shown
    is_lie=_BOOL,  # whether the answer is another than what is agreed
    is_relied=_BOOL,  # whether the client has relied on it
    is_paid=_BOOL,  # whether it has given a voucher
    checker=_NAME,  # who has computed it again: client, watcher; null if nobody
    finding=_NAME,  # what the service was told: lie, conflict, unlisted, frivolous; null if nothing
    challenged=_INT,  # block of the first challenge; null if there was none
    lost_gwei=_INT,  # what the provider has lost by it
)
"""One row for each receipt; none if no job is by receipt."""

SERVICE = _columns(
    block=_INT,
    call=_NAME,  # of the service; `match` for all calls of one side of a match
    agent=_INT,  # who has paid for it
    job=_INT,  # the request because of which it was made
    gas=_INT,
    fees_gwei=_INT,
    amount_gwei=_INT,  # what it has deposited, redeemed, or put up
    receipts=_INT,  # how many it is about
)
"""One row for each call of the service; none if no job is by receipt."""

TABLES: Mapping[str, pa.Schema] = {
    "jobs": JOBS,
    "games": GAMES,
    "parties": PARTIES,
    "moves": MOVES,
    "calls": CALLS,
    "accounts": ACCOUNTS,
    "receipts": RECEIPTS,
    "service": SERVICE,
    "agents": AGENTS,
    "spans": SPANS,
    "ledger": LEDGER,
    "events": EVENTS,
}
"""Each table by its name: `<name>.parquet` and `<name>.csv` of a results folder."""

RUNS = _columns(
    rep=_INT,  # repetition of the setting
    seed=_INT,
    status=_NAME,  # done, failed
    error=_TEXT,  # one line; null if it is done
    jobs=_INT,  # after the burn-in, as all sums
    burn_in=_INT,  # jobs before them, which no sum counts
    right=_INT,
    wrong=_INT,
    void=_INT,
    unserved=_INT,
    cheated=_INT,
    caught=_INT,  # jobs that were cheated in and whose cheat lost its bond
    audited=_INT,
    checked=_INT,
    late=_INT,  # jobs that were not audited because every check came too late
    busy=_INT,  # jobs that were to be audited, and nobody who was asked had a free slot
    audit_rate_asked=_FLOAT,  # mean of what the rule asks for, over the jobs that were served
    audit_rate_achieved=_FLOAT,  # share of the jobs that were served and audited in time
    disputed=_INT,
    played=_INT,  # disputes, of the whole run
    disagreements=_INT,  # of the whole run
    violations=_INT,  # of invariants
    waited=_INT,  # jobs of which a call has waited for a block that it could pay
    missed_clocks=_INT,  # accounts that were too late because of that
    missed_gwei=_INT,  # what all who are worse off for it have less of bonds, prizes and reward
    spoiled=_INT,  # jobs that came to another outcome because of it
    gas=_INT,
    fees_gwei=_INT,
    burned_gwei=_INT,
    capital_gwei=_INT,  # what locked capital has cost its owners
    client_gwei=_INT,  # of all clients
    honest_gwei=_INT,  # profit of the providers whose strategy is honest
    cheat_gwei=_INT,  # of all others
    watcher_gwei=_INT,
    blocks=_INT,  # how long the run was
)
"""One row for each run; a sweep has a column more for each key that it varies, before `jobs`."""
