"""Data-parallel execution: processes that share a batch come to the state of one that has it all.

`partition` decides which part of each operator a worker computes, `partial_sums` adds up in whole
numbers what several workers sum, `execution` runs a worker's part, `worker` is its process, and
`launch` starts them all.
"""
