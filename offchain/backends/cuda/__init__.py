"""The backend for NVIDIA devices: kernels in an IR that also runs on the processor, and launches.

A kernel is written once (`kernel.py`). `ptx.py` makes PTX of it, for devices; `emulator.py` runs it
as loops over the grid, for tests on any machine. No device is needed to know a kernel's bits.
"""
