"""The kernels: native loops for the computations that have to be fast.

Every kernel returns the bits that the arithmetic `ordered` defines; a NaN that a kernel computes is
0x7fc00000. The bits depend on the operands only: not on the number of threads, on block sizes, on
the processor or on what was compiled before. No kernel enables fast-math.

A kernel is a Python function that numba compiles for one fixed signature when it is first called
(`compiled.py`) and that computes one part of a result; Python threads that never spin share the
parts (`threads.py`). Vector code that a compiler cannot be trusted to find by itself is written as
LLVM IR over vectors (`vectors.py`) of one width for all kernels, by default the widest that the
processor has (`machine.py`).

Maps, and the folds and picks of rows between them, are fused into kernels of their own, which are
written as LLVM IR without numba (`fused/`); `native.py` compiles it and keeps its object code on
disk.
"""
