"""Providers: their runs, their stores, their claims, and the cheats of the dishonest ones."""
