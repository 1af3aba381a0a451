"""Products on tensor cores of devices: of bfloat16 in their arithmetics, and of bytes."""
