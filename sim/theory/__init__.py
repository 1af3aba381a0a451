"""Closed forms from the literature, each beside a simulation or a dispute that is really played.

A file has one source. What it publishes is in constants, how it is derived is in functions, and
`docs/tools/economics.py` prints both next to what Moot measures.
"""
