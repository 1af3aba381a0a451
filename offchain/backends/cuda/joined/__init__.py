"""Rows between two products in one kernel: attention, whose scores never leave a block."""
