"""Benchmarks: ours beside stock torch, turn by turn in one process.

`shapes` lists what is measured; `products`, `convolutions`, `operators`, `steps` and `hashing` make
the sides; `timing` measures them, and `rows` says what is made of the numbers.
"""
