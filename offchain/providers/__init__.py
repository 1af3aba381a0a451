"""Providers: what they run, what they keep, what they claim, and how the dishonest ones lie."""
