"""What holds after every case: the honest one is paid, nothing is sent twice, money adds up."""

import json
from collections import Counter, defaultdict
from typing import Any

from moot.contracts.reasons import Standing, Status
from tests.parties.faults_stage import FUND_WEI, REWARD_WEI, Case


def check(case: Case) -> dict[str, int]:
    """Check a case that is over, and return what it came to, as numbers."""
    assert case.job().status is Status.WON, case.explain()
    sent = list_sent(case)
    spent = {name: sum(it["fee"] for it in own) for name, own in sent.items()}
    balance = {it: case.stage.referee.balance(case.addresses[it]) for it in sent}
    gain = {name: balance[name] + spent[name] - FUND_WEI for name in sent}
    assert gain["client"] == -REWARD_WEI, f"{case.folder}: the client's money is off: {gain}"
    is_in = case.standing("honest") is not Standing.NONE  # it may be down until it is too late
    least_wei = REWARD_WEI if is_in else 0
    assert gain["honest"] >= least_wei, f"{case.folder}: the honest provider lost: {gain}"
    assert not is_in or gain["cheat"] < 0, f"{case.folder}: the cheat gained: {gain}"
    made = Counter(it["input"] for it in sent["honest"] if it["status"])
    twice = [data[:10] for data, times in made.items() if times > 1]
    assert not twice, f"{case.folder}: made twice: {twice}"
    meanings = count_meanings(case)
    assert set(meanings.values()) <= {1}, f"{case.folder}: signed with two meanings: {meanings}"
    drafts = [it for it in (case.folder / "honest").rglob(".*") if it.is_file()]
    return {
        "came too late": not is_in,
        "calls": len(sent["honest"]),
        "failed calls": sum(not it["status"] for it in sent["honest"]),
        "drafts left": len(drafts),
    }


def list_sent(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return what each party has in the chain: the input, the fee in wei, and the status."""
    ask = case.stage.ask
    names = {address.lower(): name for name, address in case.addresses.items()}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in case.addresses}
    for number in range(case.first_block, case.stage.referee.block_number() + 1):
        for it in ask("eth_getBlockByNumber", hex(number), True)["transactions"]:
            if (name := names.get(it["from"])) is None:
                continue
            receipt = ask("eth_getTransactionReceipt", it["hash"])
            fee = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
            found[name].append(
                {"input": it["input"], "fee": fee, "status": int(receipt["status"], 16)}
            )
    return found


def count_meanings(case: Case) -> dict[str, int]:
    """Return how many meanings each nonce and each commitment of the honest provider was given."""
    meanings: dict[str, set[str]] = defaultdict(set)
    address = case.addresses["honest"]
    for journal in (case.folder / "state").glob(f"*{address}*.log"):
        given_up = set[int]()
        for record in reversed([json.loads(line) for line in journal.read_text().splitlines()]):
            if record["do"] in {"up", "taken"}:
                given_up.add(record["nonce"])
            if record["do"] == "signed" and record["nonce"] not in given_up:
                meanings[f"nonce {record['nonce']}"].add(record["digest"])
            if record["do"] == "signed" and record["call"] in {"commit", "reveal"}:
                meanings[record["call"]].add(record["digest"])
    return {name: len(digests) for name, digests in meanings.items()}
