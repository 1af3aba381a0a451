"""The families of adversaries by name: a new one is a file and a row."""

from tests.arena.adversaries.censor import Censor
from tests.arena.adversaries.clients import LazyClient
from tests.arena.adversaries.copiers import Copiers
from tests.arena.adversaries.demands import Demands
from tests.arena.adversaries.dust import Dust
from tests.arena.adversaries.falsehoods import Falsehoods
from tests.arena.adversaries.kills import Kills
from tests.arena.adversaries.liars import Liars
from tests.arena.adversaries.nodes import Nodes
from tests.arena.adversaries.peekers import Peekers
from tests.arena.adversaries.reorganiser import Reorganiser
from tests.arena.adversaries.slow import Slow
from tests.arena.adversary import Adversary

FAMILIES: dict[str, type[Adversary]] = {
    "liars": Liars,
    "censor": Censor,
    "copiers": Copiers,
    "reorganiser": Reorganiser,
    "peekers": Peekers,
    "dust": Dust,
    "demands": Demands,
    "nodes": Nodes,
    "falsehoods": Falsehoods,
    "slow": Slow,
    "kills": Kills,
    "lazy client": LazyClient,
}
