# pragma version 0.4.3
"""
@title A referee whose jobs begin with a match: challenges of receipts
@license Apache-2.0
@notice The matches, the money and the end of a job are the referee's, module for module. Instead of
        opening a job, committing and revealing there is one call: it opens a job in which two
        members have revealed, brings the bonds of both, and begins their match. Joining begins with
        the next block. No verifier rules, and no job is void: whatever happens, half a bond at
        least is burned, so that no provider gets its bond out of the service by a challenge of its
        own. contracts/model/challenges.py is the specification.
"""

import descent
import folding
import ledger
import phases
import require
import tournament
import turns
import types
import verdicts

initializes: ledger
initializes: turns[ledger := ledger]
initializes: descent[ledger := ledger, turns := turns]
initializes: verdicts[descent := descent, ledger := ledger, turns := turns]
initializes: folding[descent := descent, turns := turns]
initializes: tournament[ledger := ledger, turns := turns]

exports: (
    ledger.jobs,
    ledger.members,
    ledger.claims,
    turns.matches,
    tournament.join,
    tournament.start_match,
    tournament.settle,
    tournament.collect,
    tournament.get_debt,
    descent.descend,
    descent.enter_claimed,
    descent.enter_tensor,
    descent.enter_state,
    verdicts.reach_chunk,
    folding.pick_element,
    folding.pick_segment,
    verdicts.prepare_leaf,
    folding.decide_leaf,
    verdicts.prove_sink,
    verdicts.timeout,
)

# As the referee's: half of a bond pays 2,000,000 gas at 50 gwei.
MIN_BOND_WEI: constant(uint256) = 2 * 2_000_000 * 50 * 10**9
MAX_BOND_WEI: constant(uint256) = 2**80 - 1
MAX_STEPS: constant(uint256) = 2**32
MAX_OPERATORS: constant(uint256) = 2**20
MAX_SLOTS: constant(uint256) = 2**16
# Longest window or clock.
MAX_BLOCKS: constant(uint256) = 2**20

# A claim with one member, who shares the reward, in the first meeting.
FIRST_CLAIM: constant(uint256) = (
    1 | 1 << ledger.SHARERS_AT | 1 << ledger.MEETING_AT | ledger.EXISTS
)
# A job with two claims, which meet.
FIRST_TALLY: constant(uint256) = 2 | 1 << ledger.MEETINGS_AT


event JobOpened:
    job_id: indexed(uint256)
    client: indexed(address)


@deploy
def __init__(leaf: address):
    """
    @notice Deploy a referee of challenges.
    @param leaf The contract that computes leaves, leaf.vy: a referee's own serves.
    """
    descent.__init__(leaf)
    # Nobody proves here that a program is not legal.
    tournament.__init__(empty(address))


@external
@payable
def enter(
    terms: types.Terms,
    client: address,
    provider: address,
    challenger: address,
    tops: bytes32[2],
) -> uint256:
    """
    @notice Open a job with two members in it, and begin their match; the value is both bonds.
    @dev Anyone may: whoever calls pays for both, and touches nothing but a new job. What a job has
         to do with a receipt says service.vy, and nobody else.
    @param terms What the receipt says; nobody commits or reveals, so that these windows are 0.
    @param client Whose job it is, as the receipt says; it pays nothing, and is owed nothing.
    @param provider Who claims the first top.
    @param challenger Who claims the second.
    @param tops The tops of their histories.
    @return The job's number.
    """
    require.big_bond(terms.bond_wei >= MIN_BOND_WEI)
    require.sound_terms(self._are_terms_sound(terms))
    # The bond is below 2^80.
    require.bond(msg.value == unsafe_mul(terms.bond_wei, 2))
    require.first_time(provider != challenger)
    keys: uint256[2] = [ledger.hash_top(tops[0]), ledger.hash_top(tops[1])]
    require.dispute(keys[0] != keys[1])
    job_id: uint256 = ledger.job_count
    ledger.job_count = job_id + 1
    head: uint256 = block.number | terms.window_blocks << ledger.WINDOW_BLOCKS_AT
    head |= terms.clock_blocks << ledger.CLOCK_BLOCKS_AT
    head |= terms.increment_blocks << ledger.INCREMENT_BLOCKS_AT
    scope: uint256 = terms.operators | terms.state_slots << ledger.STATE_SLOTS_AT
    scope |= terms.batch_slots << ledger.BATCH_SLOTS_AT | terms.steps << ledger.STEPS_AT
    # Leaves are scalars, which is mode 0.
    scope |= terms.checkpoint_every << ledger.CHECKPOINT_EVERY_AT
    # The reward is 0.
    digest: uint256 = convert(keccak256(abi_encode(terms, client, empty(uint256))), uint256)
    # Block numbers are below 2^39, windows at most 2^20.
    last: uint256 = unsafe_add(block.number, terms.window_blocks)
    tally: uint256 = FIRST_TALLY | last << ledger.JOB_WINDOW_END_AT
    ledger.jobs[job_id] = ledger.Job(
        head=head,
        scope=scope,
        tally=tally | terms.bond_wei << ledger.BOND_AT,
        client=client,
        verifier=empty(address),
        offer=digest & ~ledger.U96,
        layout=terms.layout,
        program_top=terms.program_top,
        start_root=terms.start_root,
        data_top=terms.data_top,
    )
    log JobOpened(job_id=job_id, client=client)
    accounts: address[2] = [provider, challenger]
    for i: uint256 in range(2):
        account: address = accounts[i]
        ledger.claims[job_id][keys[i]] = FIRST_CLAIM | last << ledger.WINDOW_END_AT
        ledger.members[job_id][account] = keys[i] << ledger.KEY_AT | phases.REVEALED
        log tournament.Claimed(job_id=job_id, account=account, top=tops[i])
    pair: types.Pair = types.Pair(job_id=job_id, first=provider, second=challenger)
    sides: bytes32[2] = tops
    if convert(challenger, uint160) < convert(provider, uint160):
        pair.first = challenger
        pair.second = provider
        sides = [tops[1], tops[0]]
    turns.start(pair, head, sides)
    return job_id


@external
@view
def leaf_contract() -> address:
    """
    @notice Return the contract that computes leaves.
    @return Its address.
    """
    return descent.LEAF.address


@internal
@pure
def _are_terms_sound(terms: types.Terms) -> bool:
    # As the referee's, but nobody commits or reveals, and no verifier rules.
    return (
        terms.bond_wei <= MAX_BOND_WEI
        and self._is_within(terms.state_slots, 1, MAX_SLOTS)
        and terms.batch_slots <= MAX_SLOTS
        and self._is_within(terms.operators, terms.state_slots, MAX_OPERATORS)
        and terms.steps <= MAX_STEPS
        and self._is_within(terms.checkpoint_every, 1, terms.steps)
        and terms.leaf_mode == phases.SCALAR_LEAF
        and terms.verifier == empty(address)
        and terms.commit_blocks == 0
        and terms.reveal_blocks == 0
        and self._is_within(terms.window_blocks, 1, MAX_BLOCKS)
        and terms.clock_blocks <= MAX_BLOCKS
        and self._is_within(terms.increment_blocks, 1, terms.clock_blocks)
    )


@internal
@pure
def _is_within(x: uint256, least: uint256, greatest: uint256) -> bool:
    return least <= x and x <= greatest
