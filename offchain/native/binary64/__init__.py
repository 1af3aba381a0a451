"""Engines of binary64: what a machine brings to `exact` and `logged`, tried before it is used."""
