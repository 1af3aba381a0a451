"""Traces: what was recorded, or made up beforehand, instead of what a market would draw."""
