"""The transcendental functions, correctly rounded, as LLVM IR: `functions.py` has them all."""
