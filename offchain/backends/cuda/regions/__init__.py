"""Kernels of regions: maps, and folds of rows between them, in one launch."""
