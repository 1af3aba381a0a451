"""The page `docs/reference/command-line.md`: what `moot VERB --help` says, and every setting."""

from collections.abc import Iterator

import click

from moot.command.main import cli
from moot.offchain.parties.settings import PREFIX, describe_keys, list_keys

WIDTH = 100
HEAD = """# Command line

Every verb, with every option and its default. All verbs have `--json`; what they draw comes from
`--seed`; progress goes to stderr, and only to a terminal. `python docs/tools/pages.py` writes this.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed, or a check did, with one line on stderr |
| 2 | wrong use, with one line on stderr |
| 3 | the honest claim did not win, or an object does not verify |
| 70 | a fault of Moot: `MOOT_TRACEBACK=1` shows where |
| 130, 141 | interrupted; the reader of the output went away |
"""
SETTINGS = f"""## Settings of a party

Each is a key of the settings' file, an option (`--max-fee-gwei`) and a variable
(`{PREFIX}MAX_FEE_GWEI`); an option goes before a variable, and that before the file.

| key | default | meaning |
|---|---|---|
"""


def walk(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command and of all commands below it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, make_context(below, name, context))


def make_context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """Return a context whose help has a fixed width."""
    return command.context_class(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )


def list_settings() -> Iterator[str]:
    """Yield the table's row of each setting."""
    meanings = describe_keys()
    for key in list_keys():
        default = f"`{key.default}`" if key.default != "" else ""
        meaning = meanings[key.name].replace("|", r"\|")
        yield f"| `{key.name}` | {default} | {meaning} |\n"


def render() -> str:
    """Return the page."""
    parts = [HEAD]
    for context in walk(cli, make_context(cli, "moot", None)):
        text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        parts.append(f"## {context.command_path}\n\n```text\n{text}\n```\n")
    return "\n".join([*parts, SETTINGS + "".join(list_settings())])
