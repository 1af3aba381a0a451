"""Disputes: a player's view, its moves, and the whole game from joining to payout."""
