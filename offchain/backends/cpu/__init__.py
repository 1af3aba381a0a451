"""The backend for processors: plans of single operators and of fused ones, and their kernels."""
