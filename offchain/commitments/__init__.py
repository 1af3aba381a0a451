"""Commitments: keccak-256 trees over tensors, states, histories, traces and programs."""
