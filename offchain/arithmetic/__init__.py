"""The arithmetic `ordered`, version 1: every scalar function, readably defined on bit patterns.

`functions` numbers the functions, `evaluate` dispatches them; `float32`, `integers`, `elementary`
and `philox` define them. Everything here works on plain integers; faster and on-chain versions are
held equal to it bit for bit.
"""
