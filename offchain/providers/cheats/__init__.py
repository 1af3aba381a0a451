"""The dishonest behaviours: a file for each, a row of `catalogue.py`, and what they have in common.

A cheat is a dataclass whose fields are its settings; what is left out is drawn from a seed. A
user's own is a class in a file of theirs, `path/to/file.py:Class`.
"""
