"""Joining: the conditions on which a provider takes a job, and the checks before it does."""
