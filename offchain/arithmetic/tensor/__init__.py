"""The arithmetic of tensor cores: a product of matrices is a chain of blocks (`blocks.py`)."""
