"""Names that everybody knows: accounts, and the addresses of the provider's nodes."""

from tests.arena.records import name_account

HONEST, CLIENT = name_account("honest"), name_account("client")
NODES = ("sim://one", "sim://two")
