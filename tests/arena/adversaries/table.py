"""The families of adversaries by name: a new one is a file and a row."""

from tests.arena.adversaries.liars import Liars
from tests.arena.adversary import Adversary

FAMILIES: dict[str, type[Adversary]] = {
    "liars": Liars,
}
