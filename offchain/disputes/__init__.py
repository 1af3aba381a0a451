"""Disputes, from joining a job to its payout: a room for each part of what a player does."""
