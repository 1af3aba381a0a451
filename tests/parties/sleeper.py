"""The program of a process that computes nothing: what a workshop does about it is looked at.

Jobs from `STUCK` on end with the process that asked, the process dies of the job `DEADLY`, and
others are done at once, with a lack that is as large as their number.
It imports nothing of ours, so that it begins at once.
"""

import json
import os
import sys
import time

STUCK, DEADLY, DEATH = 1_000, 666, 3


def main() -> None:
    """Say what is done."""
    parent = os.getppid()
    sys.stdin.readline()
    for line in sys.stdin:
        job_id, _ = json.loads(line)
        _tell("running", job=job_id)
        if job_id == DEADLY:
            sys.exit(DEATH)
        while job_id >= STUCK and os.getppid() == parent:
            time.sleep(0.2)
        lack = {"places": [], "least": job_id, "tensors": []}
        _tell("done", job=job_id, problem="", is_final=False, missing=lack)


def _tell(event: str, **about: object) -> None:
    sys.stdout.write(json.dumps({"event": event, "line": "", **about}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
