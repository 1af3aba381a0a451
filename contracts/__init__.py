"""The referee: its Vyper sources, its executable Python model, and what both share."""
