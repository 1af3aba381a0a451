"""Availability: demands for what a job commits to, answers to them, and what was shown."""
