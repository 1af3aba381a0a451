"""Backends: what runs programs on a device, behind one port."""
