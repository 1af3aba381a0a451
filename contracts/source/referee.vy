# pragma version 0.4.3
"""
@title The referee of Moot: jobs, bonds, claims and payouts
@license Apache-2.0
@notice A client opens a job, providers commit to claims and bond them, reveal them, and play
        matches until one claim is left. contracts/model is the executable specification, in the
        same words. There is no owner, no upgrade, no pause, no loop over members or claims.
@dev Storage is packed by hand: ledger.vy and turns.vy say how. Who plays whom is in tournament.vy,
     the moves of a match are in descent.vy and verdicts.vy.
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
    tournament.commit,
    tournament.reveal,
    tournament.join,
    tournament.start_match,
    tournament.settle,
    tournament.annul,
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
    verdicts.rule,
    verdicts.timeout,
)

# The prize of a match, half of it, pays 2,000,000 gas at 50 gwei.
MIN_BOND_WEI: constant(uint256) = 2 * 2_000_000 * 50 * 10**9
MAX_BOND_WEI: constant(uint256) = 2**80 - 1
MAX_STEPS: constant(uint256) = 2**32
MAX_OPERATORS: constant(uint256) = 2**20
MAX_SLOTS: constant(uint256) = 2**16
# Longest window or clock.
MAX_BLOCKS: constant(uint256) = 2**20


event JobOpened:
    job_id: indexed(uint256)
    client: indexed(address)


@deploy
def __init__(leaf: address, legality: address):
    """
    @notice Deploy the referee.
    @param leaf The contract that computes leaves, leaf.vy.
    @param legality The contract that takes proofs that a program is not legal, legality.vy.
    """
    descent.__init__(leaf)
    tournament.__init__(legality)


@external
@payable
def open_job(terms: types.Terms):
    """
    @notice Open a job; the value is the reward, shared by the members of the winning claim.
    @param terms What the client asks for.
    """
    require.big_bond(terms.bond_wei >= MIN_BOND_WEI)
    require.sound_terms(self._are_terms_sound(terms) and msg.value <= ledger.U96)
    job_id: uint256 = ledger.job_count
    ledger.job_count = job_id + 1
    head: uint256 = block.number | terms.commit_blocks << ledger.COMMIT_BLOCKS_AT
    head |= terms.reveal_blocks << ledger.REVEAL_BLOCKS_AT
    head |= terms.window_blocks << ledger.WINDOW_BLOCKS_AT
    head |= terms.clock_blocks << ledger.CLOCK_BLOCKS_AT
    head |= terms.increment_blocks << ledger.INCREMENT_BLOCKS_AT
    scope: uint256 = terms.operators | terms.state_slots << ledger.STATE_SLOTS_AT
    scope |= terms.batch_slots << ledger.BATCH_SLOTS_AT | terms.steps << ledger.STEPS_AT
    scope |= terms.checkpoint_every << ledger.CHECKPOINT_EVERY_AT
    digest: uint256 = convert(keccak256(abi_encode(terms, msg.sender, msg.value)), uint256)
    # Block numbers are below 2^39, windows at most 2^20.
    window_end: uint256 = unsafe_add(block.number, terms.commit_blocks)
    window_end = unsafe_add(unsafe_add(window_end, terms.reveal_blocks), terms.window_blocks)
    ledger.jobs[job_id] = ledger.Job(
        head=head,
        scope=scope | terms.leaf_mode << ledger.LEAF_MODE_AT,
        tally=window_end << ledger.JOB_WINDOW_END_AT | terms.bond_wei << ledger.BOND_AT,
        client=msg.sender,
        verifier=terms.verifier,
        offer=digest & ~ledger.U96 | msg.value,
        layout=terms.layout,
        program_top=terms.program_top,
        start_root=terms.start_root,
        data_top=terms.data_top,
    )
    log JobOpened(job_id=job_id, client=msg.sender)


@external
@view
def leaf_contract() -> address:
    """
    @notice Return the contract that computes leaves.
    @return Its address.
    """
    return descent.LEAF.address


@external
@view
def legality_contract() -> address:
    """
    @notice Return the contract that takes proofs that a program is not legal.
    @return Its address.
    """
    return tournament.LEGALITY


@internal
@pure
def _are_terms_sound(terms: types.Terms) -> bool:
    # Whether all counts, windows and clocks are within their bounds.
    return (
        terms.bond_wei <= MAX_BOND_WEI
        and self._is_within(terms.state_slots, 1, MAX_SLOTS)
        and terms.batch_slots <= MAX_SLOTS
        and self._is_within(terms.operators, terms.state_slots, MAX_OPERATORS)
        and self._is_within(terms.steps, 1, MAX_STEPS)
        and self._is_within(terms.checkpoint_every, 1, terms.steps)
        and terms.leaf_mode <= phases.OPERATOR_LEAF
        and self._is_within(terms.commit_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.reveal_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.window_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.clock_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.increment_blocks, 1, terms.clock_blocks)
    )


@internal
@pure
def _is_within(x: uint256, least: uint256, greatest: uint256) -> bool:
    return least <= x and x <= greatest
