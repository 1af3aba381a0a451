"""The gas of a call by class of opcode, from its execution; the parts add up to the receipt."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from moot.offchain.chain import Receipt
from moot.offchain.chain.gas import (
    FLOOR_GAS_PER_TOKEN,
    STANDARD_GAS_PER_TOKEN,
    TRANSACTION_GAS,
)
from moot.offchain.chain.tracer import MAX_REFUND_QUOTIENT, PRECOMPILE, Trace
from moot.offchain.disputes.play.game import Played

CLASSES: Mapping[str, frozenset[str]] = {
    "keccak": frozenset({"SHA3"}),
    "storage": frozenset({"SLOAD", "SSTORE", "TLOAD", "TSTORE"}),
    "memory": frozenset(
        {
            *("MLOAD", "MSTORE", "MSTORE8", "MCOPY", "MSIZE", "CALLDATALOAD", "CALLDATACOPY"),
            *("CODECOPY", "RETURNDATACOPY", "EXTCODECOPY"),
        }
    ),
    "arithmetic": frozenset(
        {
            *("ADD", "SUB", "MUL", "DIV", "SDIV", "MOD", "SMOD", "ADDMOD", "MULMOD", "EXP"),
            *("SIGNEXTEND", "LT", "GT", "SLT", "SGT", "EQ", "ISZERO", "AND", "OR", "XOR", "NOT"),
            *("BYTE", "SHL", "SHR", "SAR"),
        }
    ),
    "flow": frozenset({"JUMP", "JUMPI", "JUMPDEST", "PC", "STOP", "RETURN", "REVERT"}),
    "log": frozenset({f"LOG{topics}" for topics in range(5)}),
    "call": frozenset({"CALL", "CALLCODE", "STATICCALL", "DELEGATECALL", "CREATE", "CREATE2"}),
    "precompile": frozenset({PRECOMPILE}),
    "environment": frozenset(
        {
            *("ADDRESS", "BALANCE", "ORIGIN", "CALLER", "CALLVALUE", "CALLDATASIZE", "CODESIZE"),
            *("GASPRICE", "EXTCODESIZE", "EXTCODEHASH", "RETURNDATASIZE", "BLOCKHASH", "COINBASE"),
            *("TIMESTAMP", "NUMBER", "PREVRANDAO", "GASLIMIT", "CHAINID", "SELFBALANCE"),
            *("BASEFEE", "BLOBHASH", "BLOBBASEFEE", "GAS", "SELFDESTRUCT"),
        }
    ),
    "stack": frozenset(
        {
            *("POP", "PUSH0", *(f"PUSH{size}" for size in range(1, 33))),
            *(f"{name}{depth}" for name in ("DUP", "SWAP") for depth in range(1, 17)),
        }
    ),
}
"""Opcodes by what they are for."""

_CLASS_OF = {mnemonic: name for name, members in CLASSES.items() for mnemonic in members}

LINES = ("transaction", "calldata", *CLASSES, "refund", "floor")
"""The parts of a call's gas: what every transaction pays, its calldata at the standard price, the
classes, what is paid back for storage (negative), and what the least price of calldata adds."""


def break_down(receipt: Receipt, trace: Trace) -> dict[str, int]:
    """Return the parts of a call's gas; together they are what the receipt says."""
    is_at_floor = receipt.gas_execution == 0
    price = FLOOR_GAS_PER_TOKEN if is_at_floor else STANDARD_GAS_PER_TOKEN
    calldata = receipt.gas_calldata // price * STANDARD_GAS_PER_TOKEN
    parts = dict.fromkeys(LINES, 0)
    parts |= {"transaction": TRANSACTION_GAS, "calldata": calldata}
    for mnemonic, gas in trace.spent.items():
        parts[_CLASS_OF[mnemonic]] += gas
    parts["refund"] = -min(trace.refund, sum(parts.values()) // MAX_REFUND_QUOTIENT)
    floor = TRANSACTION_GAS + calldata // STANDARD_GAS_PER_TOKEN * FLOOR_GAS_PER_TOKEN
    parts["floor"] = max(0, floor - sum(parts.values()))
    return parts


def tabulate(played: Iterable[Played], traces: Mapping[str, Trace]) -> list[dict[str, Any]]:
    """Return the parts of all calls of each name and stage together, as they were first played."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for move in played:
        if move.receipt is not None:
            parts = break_down(move.receipt, traces[move.receipt.transaction_hash])
            found = sums.setdefault((move.stage, move.call), Counter())
            for name, gas in parts.items():
                found[name] += gas
    return [
        {"stage": stage, "call": call, "parts": {line: parts[line] for line in LINES}}
        for (stage, call), parts in sums.items()
    ]
