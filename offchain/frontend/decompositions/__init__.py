"""Decompositions of our own: ATen operators as compositions of others, written in torch.

They stand beside torch's decompositions and before them: the traced graph holds what they are made
of, for which there are rules. Each family has a file; `table` has them all.
"""
