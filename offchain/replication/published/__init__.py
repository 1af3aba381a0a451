"""Optimistic verifiable training as published (Srivastava, Arora and Boneh, arXiv 2403.09603).

A trainer computes a step with torch's own kernels in binary64, rounds after every layer and logs in
which direction it rounded what was near a boundary. An auditor on other hardware repeats the step
with that log, and corrects its own roundings. `rounding` is the grid, `thresholds` says what is
near, `logs` is the form of a log, `hooks` rounds within a model, `parties` are the trainer's and
the auditor's roundings, `training` makes a party's steps, `checkpoints` commits to the weights,
`replicate` runs a trainer beside an auditor and counts, `selection` finds thresholds on two kinds
of hardware, and `dispute` settles between two parties with a third.
docs/measurements/rounding-log.md shows what the method achieves, and where it fails.

Simplified: the hardware is this machine's under its profiles, not several graphics cards, so that
there is no cuDNN to switch off; the generator is seeded anew for each step, so that one step can be
run alone; inner nodes of the tree of checkpoints are hashed like all of this project's.
"""
