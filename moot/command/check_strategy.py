"""`moot check-strategy`: tries a user's strategy before anybody relies on its results."""

import sys
from contextlib import redirect_stdout

import click

from moot.command import options
from moot.command.findings import tell_findings

ROLES = ("providers", "watchers")

_EPILOG = """\b
A strategy of ten lines, as in examples/own_strategy.py:
  from dataclasses import dataclass
  from moot.sim.economy.strategies.base import Strategy
  @dataclass
  class Careful(Strategy):
      limit: float = 0.05                     # a parameter, with its default
      def decide(self, job, own, stream):     # a provider has got a job
          if job.audit_rate < self.limit and stream.draw() < 0.5:
              return "lazy"                   # a name of moot market --help
          return "honest"                     # None declines

\b
  moot check-strategy careful.py:Careful
  moot market baseline --set providers.careful.py:Careful.count=4
  moot market baseline --set providers.careful.py:Careful.limit=0.2

A watcher has `look` instead of `decide`; `bid` and `hear` are there, too:
sim/economy/strategies/base.py says what they are asked and may answer.
"""


@click.command(
    "check-strategy", short_help="Try a strategy of your own before you use it.", epilog=_EPILOG
)
@click.argument("name", metavar="FILE.py:CLASS")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default=ROLES[0],
    show_default=True,
    help="Who has the strategy.",
)
@options.as_json
def check_strategy(
    name: str,
    role: str,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> int:
    """Try a strategy in small markets with honest providers, cheats and watchers.

    Finds out whether it answers what it is asked, in time, and pays for what it chooses; whether
    the money adds up; whether the same seed gives the same market; and whether its agents share
    memory that each should have for itself. Exits with 1 if one of these is not so.

    A strategy is code that runs on this machine, with all that you may do: take none of a stranger
    that you have not read.
    """
    from moot import conformance  # noqa: PLC0415 - imports torch

    conformance.require_file(name)
    # What the strategy prints is not the result.
    with options.progress(quiet=as_json) as progress, redirect_stdout(sys.stderr):
        findings = conformance.check_strategy(name, role, progress)
    about = {"strategy": name, "role": role}
    return tell_findings("strategy", about, findings, as_json=as_json)
