"""Planning: what is computed together, in which order and in which form, whatever the device is.

It reads programs and yields data: groups of operators, and the forms of those that have kernels of
their own. It imports no kernels, and touches no tensors.
"""
