"""Answers: what an attack brings beside honesty, which bond stops it, what a mechanism invites."""
