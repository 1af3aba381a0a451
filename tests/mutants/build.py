"""The compiler of mutants of the contracts: without optimiser, imports read only once."""

import re
import warnings
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache, partial
from pathlib import PurePosixPath
from typing import Any
from unittest.mock import patch

from vyper import ast as vy_ast
from vyper.ast.parse import parse_to_ast
from vyper.compiler.input_bundle import FileInput, JSONInputBundle
from vyper.compiler.output import build_abi_output
from vyper.compiler.phases import CompilerData
from vyper.compiler.settings import OptimizationLevel, Settings, anchor_settings
from vyper.exceptions import VyperException, VyperInternalException
from vyper.ir.compile_ir import assembly_to_evm
from vyper.semantics.analysis import imports
from vyper.semantics.analysis.imports import ImportAnalyzer
from vyper.semantics.analysis.module import analyze_module
from vyper.semantics.namespace import Namespace, get_namespace, override_global_namespace

from moot.contracts.compiler import EVM_VERSION, Artifact
from moot.offchain.errors import CompileError

Function = tuple[str, str]
"""A source's file, and the name of a function in it."""

_FAILURES = (VyperException, VyperInternalException, SyntaxError, ValueError, AttributeError)


def build(name: str, sources: Mapping[str, str]) -> Artifact:
    """Compile a contract from texts by their file names.

    It writes into what has been parsed, so that no process may build a contract twice.

    Raises:
        CompileError: it does not compile.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = load(name, sources)
            with anchor_settings(data.settings):
                return Artifact(name, tuple(build_abi_output(data)), data.bytecode, 0, "")
    except _FAILURES as error:
        raise CompileError(str(error), file=name, line=None) from error


def prepare(name: str, sources: Mapping[str, str]) -> None:
    """Parse and analyse what a contract imports, for all that is built in forks of this process."""
    data = load(name, sources)
    get_namespace()  # there is none to override before
    with anchor_settings(data.settings):
        for module in data.resolved_imports.compiler_inputs.values():
            with override_global_namespace(Namespace()):
                analyze_module(module)


def list_imports(file: str, sources: Mapping[str, str]) -> list[str]:
    """Return the files that one imports, each after those that it imports itself."""
    found: dict[str, None] = {}
    for module in re.findall(r"^import (\w+)$", sources[file], re.MULTILINE):
        for path in (f"{module}.vy", f"{module}.vyi"):
            if path in sources:
                found |= dict.fromkeys((*list_imports(path, sources), path))
    return list(found)


def load(name: str, sources: Mapping[str, str]) -> CompilerData:
    """Parse a contract and all that it imports; what is the same as before is not read again."""
    files = {PurePosixPath(path): {"content": text} for path, text in sources.items()}
    bundle = JSONInputBundle(files, search_paths=[PurePosixPath()])
    settings = Settings(evm_version=EVM_VERSION, optimize=OptimizationLevel.NONE)
    file = bundle.load_file(f"{name}.vy")
    # Without the digest of the sources, by which all mutants would differ.
    data = CompilerData(file, bundle, settings, no_bytecode_metadata=True)
    with (
        patch.object(imports, "_parse_ast", partial(_parse_file, name, sources)),
        patch.object(ImportAnalyzer, "_add_import", _add_import),
    ):
        _ = data.resolved_imports
    return data


_usual = ImportAnalyzer._add_import


def _add_import(analyzer: ImportAnalyzer, node: Any, *names: Any) -> None:
    """Find what is imported; what is known of it already is kept."""
    known = node._metadata.get("import_info")
    _usual(analyzer, node, *names)
    if known is not None and known.parsed is node._metadata["import_info"].parsed:
        node._metadata["import_info"] = known


def _parse_file(contract: str, sources: Mapping[str, str], file: FileInput) -> Any:
    path = file.resolved_path.as_posix()
    texts = tuple(sources[it] for it in (path, *list_imports(path, sources)))
    return _parse(contract, path, texts, file.source_id)


@cache
def _parse(contract: str, path: str, texts: tuple[str, ...], source_id: int) -> Any:
    """Parse a source as it is imported by a contract; contracts share nothing.

    Those of what it imports come after its own text: once it is analysed it is tied to them.
    """
    del contract
    text = texts[0]
    is_interface = path.endswith(".vyi")
    return parse_to_ast(text, source_id, path, path, is_interface=is_interface)


class Map:
    """A map from the bytes of a contract's code to its functions.

    Args:
        name: the contract, which this process must not build again.
        sources: its sources.
    """

    def __init__(self, name: str, sources: Mapping[str, str]) -> None:
        data = load(name, sources)
        with anchor_settings(data.settings):
            _, maps = assembly_to_evm(data.assembly_runtime)
        found = {place: _find_function(node) for place, node in maps["pc_raw_ast_map"].items()}
        known = sorted((place, function) for place, function in found.items() if function)
        self._places = [place for place, _ in known]
        self._functions = [function for _, function in known]

    def find(self, place: int) -> Function | None:
        """Return the function of a byte: of a label, that of the first code after it."""
        following = bisect_left(self._places, place)
        return self._functions[following] if following < len(self._functions) else None


def _find_function(node: Any) -> Function | None:
    function = (
        node if isinstance(node, vy_ast.FunctionDef) else node.get_ancestor(vy_ast.FunctionDef)
    )
    return (node.module_node.path, function.name) if function else None
