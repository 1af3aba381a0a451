"""Evidence: what the verifier reads of an operator, and proofs that a program is not legal."""
