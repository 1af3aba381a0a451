"""Trainings whose every step is claimed by one machine and audited by another, without a chain.

A folder has it all: the program, its start and its data, the state of every checkpoint, the logs of
roundings where the arithmetic has them, and the claim. It is a store, so that whoever is served it
audits it from elsewhere, and believes nothing of it.
"""
