"""Moot: a moot court for machine learning."""
