"""The arithmetic `exact` on a device: products by tensor cores, and sums of single threads."""
