"""Lies of a node to a party: wrong in form, in order, in content, and about heights.

Each takes the questions and the answers of one request, and changes the answers where it can; it
returns how often it has lied.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.parties.lies import FORMS, Lie, list_places

Pairs = Sequence[tuple[dict[str, Any], dict[str, Any]]]
Liar = Callable[[Pairs, Random], int]

FOREIGN = "0x" + "ab" * 20
FAR_BLOCKS = 10_000_000
_HEIGHTS = (-20, -3, -1, 1, 3, 1000)


def lie_about_heights(pairs: Pairs, random: Random) -> int:
    """Tell another height than the node's, where one is told."""
    lies = 0
    for question, it in pairs:
        if question["method"] == "eth_blockNumber" and "result" in it:
            it["result"] = hex(max(0, int(it["result"], 16) + random.choice(_HEIGHTS)))
            lies += 1
    return lies


def lie_in_form(pairs: Pairs, random: Random) -> int:
    """Put what no node says in the place of anything in an answer."""
    _, answer = random.choice(pairs)
    detected = sorted(set(FORMS) - {"null", "twice", "reversed", "short", "odd", "list"})
    place = random.choice([*list_places(answer)][1:])
    changed = Lie(0, place, random.choice(detected)).change(0, answer)
    answer.clear()
    answer.update(changed)
    return 1


def lie_in_order(pairs: Pairs, random: Random) -> int:
    """Give logs twice, backwards, or in a wrong place; or the answer to another question."""
    logs = [it["result"] for _, it in pairs if isinstance(it.get("result"), list) and it["result"]]
    if logs and random.random() < 0.8:
        chosen = random.choice(logs)
        if random.random() < 0.5:
            chosen.insert(random.randrange(len(chosen)), random.choice(chosen))
            return 1
        chosen[-1:] = [chosen[-1] | {"logIndex": "0x0", "blockNumber": "0x0"}]
        return 1
    first, other = random.choice(pairs)[1], random.choice(pairs)[1]
    first["id"], other["id"] = random.choice((other["id"], first["id"] + 1, -7, None)), first["id"]
    return 1


def lie_in_content(pairs: Pairs, random: Random) -> int:
    """Tell of what was not asked for, or of what cannot be."""
    changes = [change for pair in pairs for change in _list_contents(*pair, random)]
    if not changes:
        return 0
    where, key, value = random.choice(changes)
    where[key] = value
    return 1


def _list_contents(
    question: dict[str, Any], answer: dict[str, Any], random: Random
) -> list[tuple[Any, Any, Any]]:
    """Return what may be changed in an answer: where, under which key, and into what."""
    result, method = answer.get("result"), question["method"]
    if not result:
        return []
    if method == "eth_getBlockByNumber":
        is_latest = question["params"][0] == "latest"
        number = FAR_BLOCKS if is_latest else int(result["number"], 16) + 1
        changes = {"number": hex(number), "gasLimit": "0x0", "hash": "0x12"}
        return [(result, *change) for change in changes.items()]
    if method == "eth_getTransactionReceipt":
        other = "0x" + "12" * 32
        changed = [(log, "transactionHash", other) for log in result["logs"]]
        return [(result, "transactionHash", other), (result, "status", "0x7"), *changed]
    if method == "eth_getLogs":
        log = random.choice(result)
        return [
            *((log, "topics", ["0x" + "56" * 32, *log["topics"][1:]]), (log, "address", FOREIGN)),
            *((log, "topics", [*log["topics"], *log["topics"][:1]]), (log, "data", "0x")),
            *((log, "blockNumber", hex(FAR_BLOCKS)), (log, "removed", True)),
        ]
    wrong = {
        "eth_blockNumber": ("-0x5", hex(FAR_BLOCKS), hex(2**41)),
        "eth_sendRawTransaction": ("0x" + "78" * 32,),
        "eth_call": (f"{result}00", result[:-2], "0x"),
    }
    return [(answer, "result", it) for it in wrong.get(method, ())]
