"""Kernels written for one program: `region.py` says what one computes, `generate.py` writes it."""
