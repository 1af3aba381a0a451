"""Damages what a party keeps, and opens it again: `python -m tests.parties.durability --cases 40`.

A case cuts a file off, flips a bit of it, puts garbage behind it, or lets the disk be full at one
write. Then the party goes on, or says one line; no salt and no transaction that was sent is lost,
and nothing is signed with two meanings. The line of a case says with which seed it is played again.
"""

import sys

from tests.parties import durability_job, durability_journal
from tests.parties.drawn import Kind, run_campaign

KINDS: dict[str, Kind] = {**durability_journal.KINDS, **durability_job.KINDS}

if __name__ == "__main__":
    sys.exit(run_campaign(KINDS, "durability", __doc__ or ""))
