"""`moot program`: what a captured program is made of."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from moot.command import options
from moot.command.groups import Group
from moot.command.wording import describe_capture


@click.group(cls=Group, short_help="Look at captured programs.")
def program() -> None:
    """Look at programs: what is captured, and how it is committed to."""


@program.command(
    help=f"""Capture a program and show it.

    That is its commitment, its state and its operators. NAME is {options.PROGRAM_HELP}
    """
)
@click.argument("name", default="gpt2")
@click.option("--size", default="tiny", show_default=True, help=options.SIZE_HELP)
@options.precision
@click.option("--inference", is_flag=True, help="One forward pass instead of training.")
@click.option("--data", type=click.Path(path_type=Path), help="Text for language models.")
@click.option("--operators", is_flag=True, help="List every operator.")
@options.arithmetic
@options.trust_capture
@options.seed
@options.as_json
def show(
    name: str,
    size: str,
    precision: str,
    inference: bool,  # noqa: FBT001 - click passes it
    data: Path | None,
    operators: bool,  # noqa: FBT001 - likewise
    arithmetic: str,
    trust_capture: bool,  # noqa: FBT001 - likewise
    seed: int,
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Capture a program and show it."""
    from moot.offchain.providers.agreement import make_task  # noqa: PLC0415 - imports torch
    from moot.offchain.providers.setting import Setting  # noqa: PLC0415 - imports torch

    setting = Setting(
        program=name,
        size=size,
        steps=1,
        checkpoint_every=1,
        seed=seed,
        data=data,
        precision=precision,
        inference=inference,
        trust_capture=trust_capture,
        arithmetic=arithmetic,
    )
    task = make_task(setting)
    header = task.commitment.header
    nodes = task.program.nodes
    listing = [
        {
            "index": index,
            "name": task.program.names[index],
            "kind": node.kind.name.lower(),
            "function": node.function.name.lower(),
            "dtype": node.dtype.name.lower(),
            "shape": list(node.shape),
            "fold": list(node.fold_shape),
            "inputs": [task.program.names[i] for i in node.inputs],
            "line": task.program.lines[index],
        }
        for index, node in enumerate(nodes)
    ]
    result = {
        "arithmetic": str(task.program.arithmetic),
        "program_root": header.root.hex(),
        "start_root": task.start_root.hex(),
        "compared_with_torch": not trust_capture,
        "operators": header.operators,
        "state_slots": header.state_slots,
        "batch_slots": header.batch_slots,
        "state_elements": sum(slot.elements for slot in task.program.state),
        "inputs": [
            {"name": slot.name, "dtype": slot.dtype.name.lower(), "shape": list(slot.shape)}
            for slot in task.program.batch
        ],
        "kinds": dict(Counter(row["kind"] for row in listing)),
        "functions": dict(Counter(row["function"] for row in listing)),
        "nodes": listing,
    }
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result, operators=operators)


@program.command(
    help=f"""Capture a program and publish it.

    Puts to STORE, a folder or an address such as s3://bucket/folder, all that a job's terms commit
    to, by its roots: the program, the start state and the data of all steps. NAME is
    {options.PROGRAM_HELP}

    The data are the program's own batches, each in full. With --dataset they are made of the rows
    of a safetensors file, and the file's tensors are published with the rule: `moot program publish
    mlp job --dataset digits.safetensors --shuffle 7 --steps 1000`, where the file has tensors that
    are named as the program's inputs are (`moot program show mlp` names these), with a row for each
    sample. Whoever fetches the job makes the batches himself, and compares their roots.
    """
)
@click.argument("name")
@click.argument("store")
@click.option("--size", default="tiny", show_default=True, help=options.SIZE_HELP)
@options.precision
@click.option("--inference", is_flag=True, help="One forward pass instead of training.")
@click.option("--steps", default=16, show_default=True, help="Steps of the job.")
@click.option("--data", type=click.Path(path_type=Path), help="Text for language models.")
@options.dataset
@options.arithmetic
@options.trust_capture
@options.seed
def publish(
    name: str,
    store: str,
    size: str,
    precision: str,
    inference: bool,  # noqa: FBT001 - click passes it
    steps: int,
    data: Path | None,
    arithmetic: str,
    trust_capture: bool,  # noqa: FBT001 - likewise
    seed: int,
    **given: Any,
) -> None:
    """Capture a program and write its files."""
    from moot.offchain.providers.agreement import make_task  # noqa: PLC0415 - imports torch
    from moot.offchain.providers.publication import put_task  # noqa: PLC0415 - imports numpy
    from moot.offchain.providers.setting import Setting  # noqa: PLC0415 - imports torch

    setting = Setting(
        program=name,
        size=size,
        steps=options.check_steps(steps, inference=inference),
        checkpoint_every=1,
        seed=seed,
        data=data,
        precision=precision,
        inference=inference,
        trust_capture=trust_capture,
        arithmetic=arithmetic,
    )
    choice = options.choose_dataset(given)
    with options.opened_store(store) as opened:
        put_task(opened, make_task(setting, choice))


def _show(result: dict[str, Any], *, operators: bool) -> None:
    """Print a program for people."""
    console = options.make_console()
    console.print(f"program root  {result['program_root']}")
    console.print(f"start root    {result['start_root']}")
    console.print(
        f"{result['operators']:,} operators, {result['state_slots']} state tensors with "
        f"{result['state_elements']:,} elements, {result['batch_slots']} batch tensors"
    )
    for slot in result["inputs"]:
        shape = ",".join(map(str, slot["shape"]))
        console.print(f"input {slot['name']}: {slot['dtype']} ({shape})")
    console.print(describe_capture(is_compared=result["compared_with_torch"]))
    for title in ("kinds", "functions"):
        table = Table(title.rstrip("s"), "operators")
        for key, count in sorted(result[title].items(), key=lambda pair: (-pair[1], pair[0])):
            table.add_row(key, str(count))
        console.print(table)
    if operators:
        table = Table("index", "name", "kind", "function", "shape", "fold", "line")
        for row in result["nodes"]:
            shape, fold = (",".join(map(str, row[key])) for key in ("shape", "fold"))
            cells = (str(row["index"]), row["name"], row["kind"], row["function"])
            table.add_row(*cells, shape, fold, row["line"])
        console.print(table)
