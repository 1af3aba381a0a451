"""The kernels: native loops for the computations that have to be fast.

Every kernel returns the bits that the arithmetic `ordered` defines; a NaN that a kernel computes is
0x7fc00000. The bits depend on the operands only: not on the number of threads, on block sizes, on
the processor or on what was compiled before. No kernel enables fast-math.

Maps, and the folds and picks of rows between them, are fused into kernels of their own, which are
written as LLVM IR without numba (`fused/`).
"""
