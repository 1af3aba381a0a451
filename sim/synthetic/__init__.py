"""Synthetic jobs: large jobs, and runs of them, that nobody computes, disputed by real moves.

`run_length` has trees and tensors that are kept as runs of equal leaves and elements, and `proofs`
those of which there is one path only. `jobs` makes of them all that a dispute asks of a run: a new
job is a `SyntheticTask` and a subclass of `SyntheticRun`, or a call of one of these:

- `products`: a chain of products of any size, and lies at any step, operator, element and term;
- `operators`: one operator, of whose output members claim what they like;
- `elements`: one element of such an output, with the truth about it and a lie.

`calls` carries a match of such runs on. All of it builds on `offchain` and on the contract's model
alone; whoever measures, sells or attacks jobs (`gas`, `economy`, `theory`, tests) builds on it.
"""
