"""Everything off the chain: arithmetic, commitments, programs, execution, providers, disputes."""
