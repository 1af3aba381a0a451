"""The arithmetics of tensor cores on devices: products of bfloat16 by the matrix instruction."""
