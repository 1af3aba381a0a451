"""The names of what lies in a folder of objects; a process that only serves one needs no more."""

import re

KINDS = (
    *("tensors", "states", "batches", "histories", "datasets", "rules"),
    *("programs", "logs", "evidence", "trainings"),
)
"""The kinds of objects, each in a folder of its own; nothing else in a folder is shared."""

OBJECT_NAME = re.compile(f"({'|'.join(KINDS)})/[0-9a-f]{{64}}")
"""What every object's name looks like."""

PRIVATE = "private"
"""The file that is there if a folder is nobody else's: no server of ours serves it."""
