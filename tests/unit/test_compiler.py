"""Contracts are compiled once for each state of their sources, and damage is noticed."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moot.contracts import compiler
from moot.contracts.compiler import Artifact, cache_dir, compile_contract
from moot.offchain.chain import connect
from moot.offchain.errors import CompileError, UsageError

LIMITS = """
LIMIT: immutable(uint256)
PAIR: immutable(uint256[2])

@deploy
def __init__(limit: uint256):
    LIMIT = limit
    PAIR = [limit, 1]

@internal
@view
def increase(x: uint256) -> uint256:
    assert x < LIMIT, "limits: too large"
    return x + PAIR[1]
"""
COUNTER = """
import limits
initializes: limits

OWNER: immutable(address)

@deploy
def __init__(limit: uint256):
    limits.__init__(limit)
    OWNER = msg.sender

@external
@view
def increase(x: uint256) -> uint256:
    return limits.increase(x)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MOOT_CACHE", str(folder))
    return folder


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A contract, and a module that it imports."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "limits.vy").write_text(LIMITS)
    (folder / "counter.vy").write_text(COUNTER)
    return folder


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The contracts that were compiled, not recalled."""
    compiled: list[str] = []
    run = compiler._run_vyper

    def spy(path: str, *args: Any) -> dict[str, Any]:
        compiled.append(path)
        return run(path, *args)

    monkeypatch.setattr(compiler, "_run_vyper", spy)
    return compiled


def get_entry(cache: Path) -> Path:
    """Return the only entry of the cache, which must hold nothing else."""
    (entry,) = (path for path in cache.rglob("*") if path.is_file())
    return entry


def test_artifact_runs(sources: Path) -> None:
    """A contract with an imported module deploys and runs, and has the size that it says."""
    artifact = compile_contract("counter", sources)
    chain = connect()
    counter = chain.deploy(artifact, 9, sender=chain.accounts[0])
    assert counter.call("increase", 8) == 9
    assert len(chain.node.get_code(counter.address)) == artifact.runtime_size
    assert artifact.name == "counter"


def test_second_time_is_recalled(sources: Path, cache: Path, compilations: list[str]) -> None:
    """The second compilation is a recollection, equal to the first, and leaves nothing aside."""
    first = compile_contract("counter", sources)
    assert compile_contract("counter", sources) == first
    assert compilations == ["counter.vy"]
    assert list(cache.rglob("*")) == [cache / "contracts", get_entry(cache)]


def test_one_compiles_for_all(sources: Path, cache: Path, compilations: list[str]) -> None:
    """Who wants a contract that another compiles waits for it, and compiles it no second time."""
    with ThreadPoolExecutor(4) as pool:
        artifacts = list(pool.map(lambda _: compile_contract("counter", sources), range(4)))
    assert artifacts == artifacts[:1] * 4
    assert compilations == ["counter.vy"]
    assert list(cache.rglob("*")) == [cache / "contracts", get_entry(cache)]


def test_recalling_does_not_import_vyper(sources: Path) -> None:
    """What is in the cache comes without the compiler's slow import."""
    compile_contract("counter", sources)
    script = (
        "import sys; from pathlib import Path\n"
        "from moot.contracts.compiler import compile_contract\n"
        "compile_contract('counter', Path(sys.argv[1])); print('vyper' in sys.modules)"
    )
    done = subprocess.run(  # noqa: S603 - the script is the constant above
        [sys.executable, "-c", script, sources], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_every_source_counts(sources: Path, compilations: list[str]) -> None:
    """A change of an imported module, a new file or another name of one makes a new digest."""
    digests = [compile_contract("counter", sources).source_digest]
    (sources / "limits.vy").write_text(LIMITS.replace("too large", "too big"))
    changed = compile_contract("counter", sources)
    digests.append(changed.source_digest)
    (sources / "other.vyi").write_text("")
    digests.append(compile_contract("counter", sources).source_digest)
    (sources / "other.vyi").rename(sources / "another.vyi")
    digests.append(compile_contract("counter", sources).source_digest)
    assert len(set(digests)) == len(compilations) == 4
    assert b"too big" in changed.bytecode


def test_compiler_and_settings_count(
    sources: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the compiler, or another EVM, does not get this one's result."""
    before = compile_contract("counter", sources)
    monkeypatch.setattr(compiler, "EVM_VERSION", "cancun")
    other_evm = compile_contract("counter", sources)
    monkeypatch.setattr(compiler, "version", lambda _: "0.4.4")
    other_version = compile_contract("counter", sources)
    digests = {artifact.source_digest for artifact in (before, other_evm, other_version)}
    assert len(digests) == len(compilations) == 3


def corrupt_bytecode(content: bytes) -> bytes:
    """Change one byte of the bytecode, and keep it valid JSON."""
    stored = json.loads(content)
    code = stored["artifact"]["bytecode"]
    stored["artifact"]["bytecode"] = code[:-2] + f"{int(code[-2:], 16) ^ 1:02x}"
    return json.dumps(stored).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"\xff" + content,
        lambda _: b"[]",
        lambda _: b'{"artifact": {}, "sha256": ""}',
        corrupt_bytecode,
    ],
)
def test_damaged_entry_is_rebuilt(
    sources: Path, cache: Path, compilations: list[str], damage: Any
) -> None:
    """An entry that is not as it was written is compiled again, and replaced."""
    first = compile_contract("counter", sources)
    entry = get_entry(cache)
    content = entry.read_bytes()
    entry.write_bytes(damage(content))
    assert compile_contract("counter", sources) == first
    assert len(compilations) == 2
    assert get_entry(cache).read_bytes() == content


def test_cache_that_cannot_be_written(sources: Path, cache: Path, compilations: list[str]) -> None:
    """Without a place for the cache everything works, only slower."""
    cache.write_text("in the way")
    assert compile_contract("counter", sources) == compile_contract("counter", sources)
    assert len(compilations) == 2


def test_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MOOT_CACHE comes before XDG_CACHE_HOME, and that before the home directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == Path(os.environ["MOOT_CACHE"])
    monkeypatch.delenv("MOOT_CACHE")
    assert cache_dir() == tmp_path / "xdg" / "moot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == tmp_path / "home" / ".cache" / "moot"


@pytest.mark.parametrize(
    ("source", "line", "problem"),
    [
        ("@external\ndef f(:\n    pass\n", None, "Syntax"),
        ("@external\ndef f() -> uint256:\n    return b''\n", 3, "TypeMismatch: Expected uint256"),
        ("import nowhere\n", 1, "ModuleNotFound: nowhere"),
        ("# pragma version 0.3.1\n", 1, "VersionException"),
        ("enum A:\n    B\n@external\ndef f(a: A):\n    pass\n", 1, "deprecated"),
        (
            "@external\ndef f():\n    a\n@external\ndef g():\n    b\n",
            6,
            "StructureException: Expressions without",
        ),
        ("# pragma evm-version cancun\n", None, "settings conflict"),
    ],
)
def test_errors_are_one_line_with_a_place(
    sources: Path, source: str, line: int | None, problem: str
) -> None:
    """What does not compile, warnings included, is told in one line with its file and line."""
    (sources / "bad.vy").write_text(source)
    with pytest.raises(CompileError, match=problem) as caught:
        compile_contract("bad", sources)
    assert caught.value.file == "bad.vy"
    assert line is None or caught.value.line == line
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("bad.vy")


def test_error_in_an_imported_module_is_placed_there(sources: Path) -> None:
    """An error in a module names the module's file, not that of the contract."""
    (sources / "limits.vy").write_text(LIMITS.replace("x + PAIR[1]", "True"))
    with pytest.raises(CompileError, match=r"^limits\.vy:14: TypeMismatch") as caught:
        compile_contract("counter", sources)
    assert (caught.value.file, caught.value.line) == ("limits.vy", 14)


def test_unknown_contract(sources: Path) -> None:
    """A contract that is not there is met with the name of the closest one that is."""
    with pytest.raises(UsageError, match="unknown contract 'conter'; did you mean 'counter'"):
        compile_contract("conter", sources)


def test_nothing_outside_the_folder_is_read(sources: Path) -> None:
    """A contract cannot import what the digest does not cover."""
    (sources.parent / "outside.vy").write_text(LIMITS)
    (sources / "bad.vy").write_text("from .. import outside\n")
    with pytest.raises(CompileError, match=r"bad\.vy:1"):
        compile_contract("bad", sources)


def test_artifacts_are_values(sources: Path) -> None:
    """Equal sources make equal artifacts, in whatever folder they are."""
    other = sources.parent / "elsewhere"
    sources_here: Artifact = compile_contract("counter", sources)
    sources.rename(other)
    assert compile_contract("counter", other) == sources_here
