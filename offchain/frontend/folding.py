"""Folding of constants in types that the arithmetic lacks: torch computes them once, at capture.

A model may make a table of positions in float64 and give it back in float32. Where nothing of that
depends on the state or the batch, the table is a constant of the program. Tensors that are written
to are left as they are, and refused: a node alone does not say what they hold.
"""

from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node

from moot.offchain.frontend.lowering.graph import TORCH_TYPES


def fold_constants(module: GraphModule) -> None:
    """Replace constants of a traced graph that are made by way of types without arithmetic."""
    if any(map(_writes_strangely, module.graph.nodes)):
        return
    constant: set[Node] = set()
    values: dict[Node, Any] = {}
    for node in list(module.graph.nodes):
        if not _is_constant(node, constant):
            continue
        constant.add(node)
        parents = node.all_input_nodes
        if not _is_strange(node) and any(map(_is_strange, parents)):
            _replace(module, node, _evaluate(module, node, values))
    module.recompile()


def _is_constant(node: Node, constant: set[Node]) -> bool:
    if node.op == "get_attr":
        return True
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return (
        node.op == "call_function" and not is_random and constant.issuperset(node.all_input_nodes)
    )


def _is_strange(node: Node) -> bool:
    """Return whether a node is a tensor of a type that the arithmetic lacks."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype not in TORCH_TYPES


def _writes_strangely(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(schema and schema.is_mutable) and any(map(_is_strange, node.all_input_nodes))


def _evaluate(module: GraphModule, node: Node, values: dict[Node, Any]) -> Any:
    """Return what a constant node gives, by torch."""
    if node not in values:
        if node.op == "get_attr":
            values[node] = attrgetter(str(node.target))(module)
        else:
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs), lambda parent: _evaluate(module, parent, values)
            )
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a function
    return values[node]


def _replace(module: GraphModule, node: Node, value: torch.Tensor) -> None:
    """Let a node be a tensor that the module holds."""
    name = f"_folded_{node.name}"
    module.register_buffer(name, value.detach().clone())
    with module.graph.inserting_before(node):
        found = module.graph.get_attr(name)
    found.meta = dict(node.meta)
    node.replace_all_uses_with(found)
