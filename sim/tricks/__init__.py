"""Tricks: ways in which a provider may try to make money of the referee itself.

They lie like the cheats, or work like the honest, and try to gain by how and when they call: every
one is an attack on some other dispute game. What is expected is that none of them pays.
"""
