"""Synthetic jobs: large jobs, and runs of them, that nobody computes, disputed by real moves."""
