"""Disputes: what a player sees, which move it makes, and the game from joining to payout."""
