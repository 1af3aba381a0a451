"""The rounding logs of programs in `logged`: their files, their roots, and what an entry means."""
