"""The bounded verifier: recomputes one operator, off chain and in a sandbox.

`verifier` is the side that asks: it checks a question, knows its cost (`bounds`) and refuses it
before anything runs, starts a process and judges by what comes back. `worker` is that process: it
locks itself up (`sandbox`), reads the question (`exchange`), checks it again (`questions`), checks
every operand against its agreed root, and recomputes (`recompute`). Nothing is imported here, so
that the process is locked up before it loads numerical code.
"""
