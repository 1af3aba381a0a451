"""Products of matrices, of any layout and size, and convolutions."""
