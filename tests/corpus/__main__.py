"""Prints the corpus: `python -m tests.corpus [WORD]` judges every row (with a word in its name).

`--record` writes the lines of the refused rows to refusals.json. `--counts` prints the table of the
programs of practice that is in docs/reference/capture.md, from what is recorded.
"""

import argparse
import json
import sys
import warnings
from collections import Counter
from functools import partial

from tests.corpus.judge import Judgement, judge
from tests.corpus.practice import PROGRAMS, count, judge_program
from tests.corpus.table import NAMES, RECORD, REFUSALS, ROWS


def report(word: str) -> dict[str, Judgement]:
    """Print and return what becomes of each row with a word in its name."""
    judgements = {}
    judges = {name: partial(judge, row) for name, row in ROWS.items()}
    judges |= {name: partial(judge_program, make) for name, make in PROGRAMS.items()}
    for name, decide in judges.items():
        if word not in name:
            continue
        judgement = judgements[name] = decide()
        print(f"{judgement.outcome:9} {name:60} {judgement.message}", flush=True)  # noqa: T201
    counts = Counter(judgement.outcome for judgement in judgements.values())
    summary = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    print(f"{len(judgements)} rows: {summary}")  # noqa: T201
    return judgements


def main() -> int:
    """Judge the rows; return 1 if one of them is not as the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--record", action="store_true", help="write refusals.json")
    parser.add_argument("--counts", action="store_true", help="print the counts by topic")
    options = parser.parse_args()
    if options.counts:
        print(count(REFUSALS), end="")  # noqa: T201
        return 0
    warnings.filterwarnings("ignore")
    judgements = report(options.word)
    refused = {name: j.message for name, j in judgements.items() if j.outcome == "refused"}
    if options.record:
        kept = {n: line for n, line in REFUSALS.items() if n in NAMES and n not in judgements}
        RECORD.write_text(json.dumps(dict(sorted((kept | refused).items())), indent=1) + "\n")
    faults = [n for n, j in judgements.items() if j.outcome in ("wrong", "traceback")]
    expected = {name: line for name, line in REFUSALS.items() if name in judgements}
    for name in faults:
        print(f"fault: {name}")  # noqa: T201
    for name in sorted({n for n, _ in expected.items() ^ refused.items()} - set(faults)):
        print(f"not as the table says: {name}")  # noqa: T201
    return int(bool(faults) or expected != refused)


if __name__ == "__main__":
    sys.exit(main())
