"""Experiments: many runs of a simulated market, one for each setting and repetition."""
