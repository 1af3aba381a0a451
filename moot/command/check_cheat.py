"""`moot check-cheat`: tries a user's cheat before anybody relies on what a dispute finds of it."""

import sys
from contextlib import redirect_stdout

import click

from moot.command import options
from moot.command.findings import tell_findings

_EPILOG = """\b
A cheat of eight lines:
  from dataclasses import dataclass
  import moot
  @dataclass(eq=False)
  class Doubled(moot.Behaviour):
      step: int = 1                           # a setting, with its default
      def patch(self, step, state):           # operator -> what replaces its output
          return {0: lambda output: output * 2} if step == self.step else None

\b
  moot check-cheat doubled.py:Doubled
  moot dispute --program mlp --cheat doubled.py:Doubled:step=3

A setting that is None is drawn where the class has a `draw`; other hooks change the state, a batch,
a log, the history or a trace: offchain/providers/behaviour.py says what each is given and returns.
"""


@click.command(
    "check-cheat", short_help="Try a cheat of your own before you dispute it.", epilog=_EPILOG
)
@click.argument("name", metavar="FILE.py:CLASS[:KEY=VALUE,...]")
@options.as_json
def check_cheat(name: str, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Try a cheat on a small network, and dispute it with an honest run.

    Finds out whether it can be run and leaves alone what it is given; whether the same seed gives
    the same claim; whether that is another than the honest one; whether it loses, and where it was
    found. Exits with 1 if one of these is not so.

    A cheat is code that runs on this machine, with all that you may do: take none of a stranger
    that you have not read.
    """
    from moot import conformance  # noqa: PLC0415 - imports numpy

    conformance.require_file(name)
    # What the cheat prints is not the result.
    with options.progress(quiet=as_json) as progress, redirect_stdout(sys.stderr):
        findings = conformance.check_cheat(name, progress=progress)
    return tell_findings("cheat", {"cheat": name}, findings, as_json=as_json)
