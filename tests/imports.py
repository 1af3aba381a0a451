"""The imports of a Python file, as they stand in its source."""

import ast
from functools import cache
from pathlib import Path


@cache
def list_imports(path: Path) -> frozenset[str]:
    """Return the names of the modules that a file imports, at its top or anywhere below."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)
