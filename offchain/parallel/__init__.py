"""Data-parallel execution: processes that share a batch come to the state of one that has it all.

`partition` decides which part of each operator a worker computes, `execution` runs a worker's part,
`worker` is its process, and `launch` starts them all.
"""
