"""A game: what a player sees, which move it makes, and the table from joining to payout."""
