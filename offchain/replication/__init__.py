"""Replication: two processes on unlike hardware train the same recipe, and their bits are compared.

`profiles` names the settings under which this machine computes like another one, `worker` is the
process that trains under one of them, and `compare` runs two and counts where they part.
"""
