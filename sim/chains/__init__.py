"""Chains as data: what a call costs on each, how long its blocks are, and how long to wait."""
