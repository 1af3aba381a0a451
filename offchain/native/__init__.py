"""Machine code from Python: kernels that numba and LLVM compile, their threads and their memory.

Commitments and backends build on it. It knows the arithmetic's scalar functions, and no operators.

A kernel is a Python function that numba compiles for one fixed signature when it is first called
(`compiled.py`) and that computes one part of a result; Python threads that never spin share the
parts (`threads.py`). Vector code that a compiler cannot be trusted to find by itself is written as
LLVM IR over vectors (`vectors.py`) of one width for all kernels, by default the widest that the
processor has (`machine.py`); `native.py` compiles it and keeps its object code on disk. The scalar
functions are there as such code, too (`emit.py`, `transcendental/`).
"""
