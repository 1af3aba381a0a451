"""The accounts of those whom everybody knows."""

from tests.arena.records import name_account

HONEST, CLIENT = name_account("honest"), name_account("client")
