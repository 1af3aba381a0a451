"""An engine that lies about one token of each answer, to try clients and watchers.

What it signs is what `wrong-token` claims of the same run, so that `moot receipt defend` can play
for it to the end.
"""

from moot.offchain.errors import UsageError
from moot.offchain.providers.cheats.reading import parse_cheat
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Limits

NAME = "wrong-token"


class LyingEngine(Engine):
    """Answers as an engine does, but for one token.

    Args:
        programs: the model's programs.
        limits: the limits.
        has_claims: whether answers have claims.
        cheat: `wrong-token:token=N`, where N is the place in an answer; shorter ones are right.

    Raises:
        UsageError: it is another cheat, or names no place.
    """

    def __init__(
        self, programs: Programs, limits: Limits, cheat: str, *, has_claims: bool = True
    ) -> None:
        super().__init__(programs, limits, has_claims=has_claims)
        name, settings = parse_cheat(cheat)
        if name != NAME or not settings.get("token", "").isdigit():
            raise UsageError(f"an answering provider cheats by {NAME}:token=N; choose N")
        self._place = int(settings["token"])

    def write(self, chosen: int, place: int) -> int:
        """See Engine; the lie is the token with its lowest bit flipped, if there is such a one."""
        lie = chosen ^ 1
        return lie if place == self._place and lie < self.programs.vocabulary else chosen


def make_engine(programs: Programs, limits: Limits, has_claims: bool, cheat: str) -> Engine:  # noqa: FBT001 - of options
    """Return an engine, which lies if there is a cheat."""
    if cheat:
        return LyingEngine(programs, limits, cheat, has_claims=has_claims)
    return Engine(programs, limits, has_claims=has_claims)
