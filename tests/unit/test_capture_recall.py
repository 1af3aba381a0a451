"""Captures that are recalled without tracing: when they are, and what has them traced again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import moot.offchain
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture import capture, captured, recall, surroundings
from moot.offchain.frontend.capture.captured import Captured
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.encoding import encode_program
from moot.offchain.providers import setting
from tests.end_to_end.command import MOOT
from tests.quick import every

BEGAN_NS = moot.offchain.BEGAN_NS
LATER_NS = BEGAN_NS + 10**15


class Model(nn.Module):
    """A layer with dropout and a constant that was drawn."""

    def __init__(self, seed: int = 0, factor: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer, self.drop = nn.Linear(3, 3), nn.Dropout(0.5)
        self.factor = factor
        self.shift = torch.randn(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return three numbers for each row."""
        found: torch.Tensor = functional.gelu(self.layer(self.drop(x))) * self.factor + self.shift
        return found


def make_recipe(model: nn.Module | None = None) -> TrainingRecipe:
    """Return a recipe that trains a model."""
    return TrainingRecipe(
        model or Model(),
        lambda model, x: model(x).square().mean(),
        SGD(0.1),
        lambda step: (torch.full((2, 3), float(step)),),
    )


class Traces:
    """Captures of an example, of which it is noted whether they were traced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder, self.made = folder, 0
        trace: Any = captured._trace

        def count(*args: Any) -> Any:
            self.made += 1
            return trace(*args)

        monkeypatch.setattr(captured, "_trace", count)

    def capture(self, recipe: TrainingRecipe | None = None, **options: Any) -> Captured:
        """Capture an example."""
        return capture(recipe or make_recipe(), **{"trust": True, "example": "a"} | options)

    def is_traced(self, recipe: TrainingRecipe | None = None, **options: Any) -> bool:
        """Capture an example and return whether it was traced; compare it with a new trace."""
        before, recipe = self.made, recipe or make_recipe()
        found = self.capture(recipe, **options)
        is_traced = self.made > before
        fresh = capture(recipe, trust=True, arithmetic=found.program.arithmetic)
        assert encode_program(found.program) == encode_program(fresh.program)
        for a, b in zip(found.initial_state, fresh.initial_state, strict=True):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()
        for a, b in zip(found.batch(1), fresh.batch(1), strict=True):
            assert a.tobytes() == b.tobytes()
        return is_traced


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load what a capture loads: it would be another process afterwards."""
    capture(make_recipe())


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traces:
    """Return captures in a process that is taken for one without code of a user's.

    It is as if it had begun after all files were written.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(moot.offchain, "BEGAN_NS", LATER_NS)
    monkeypatch.setattr(surroundings, "find_stranger", lambda _: None)
    return Traces(monkeypatch, tmp_path / "cache" / "moot" / "captures")


def test_an_example_is_traced_once(traces: Traces) -> None:
    """A second capture is the first one, of whatever weights and batches, without tracing."""
    assert traces.is_traced()
    assert not traces.is_traced()
    recipe, model = make_recipe(), Model()
    with torch.no_grad():
        model.layer.weight.add_(1)
    recipe = replace(make_recipe(model), batch=lambda step: (torch.full((2, 3), step / 2),))
    assert not traces.is_traced(recipe)
    assert len(list(traces.folder.iterdir())) == 1
    assert not traces.capture().is_rehearsed


@pytest.mark.parametrize(
    ("recipe", "options"),
    every(
        8,
        [
            (replace(make_recipe(), batch=lambda step: (torch.full((4, 3), float(step)),)), {}),
            (make_recipe(), {"arithmetic": EXACT}),
            (make_recipe(), {"example": "b"}),
        ],
    ),
)
def test_another_example_is_traced(
    recipe: TrainingRecipe, options: dict[str, Any], traces: Traces
) -> None:
    """What differs in its form, its arithmetic or what it was asked for with is not recalled."""
    traces.capture()
    assert traces.is_traced(recipe, **options)
    assert not traces.is_traced(recipe, **options)


@pytest.mark.slow
def test_processes_with_code_of_users(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with a module of a user's, as this one, traces: whatever that may have replaced."""
    traces.capture()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(traces.folder.parents[1]))
    monkeypatch.setattr(functional, "gelu", functional.relu)
    second = Traces(monkeypatch, traces.folder)
    assert second.is_traced()
    assert second.is_traced()


def _set_variable(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("TORCH_SOMETHING", "1")


def _set_path(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "path", [*sys.path, "/nowhere"])


def _set_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "__version__", "2.99")


def _install(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(surroundings, "_list_installed", lambda: ("sympy-9.dist-info",))


def _edit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recall, "hash_sources", lambda: b"another source")


@pytest.mark.parametrize(
    "change", every(10, [_set_variable, _set_path, _set_version, _install, _edit])
)
def test_another_process_traces(
    change: Callable[[pytest.MonkeyPatch], None], traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable, a path, a version or another source of ours has an example traced again."""
    traces.capture()
    change(monkeypatch)
    assert traces.is_traced()


def _find(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.slow
def test_damaged_entries(traces: Traces) -> None:
    """An entry that is cut off, empty or altered, or whose program is gone, is made again."""
    traces.capture()
    entry, program = _find(traces.folder), _find(traces.folder.parent / "programs")
    for path in (entry, program):
        whole = path.read_bytes()
        for bad in (b"", whole[:-1], whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]):
            path.write_bytes(bad)
            assert traces.is_traced()
            assert path.read_bytes() == whole
        path.unlink()
        assert traces.is_traced()
    assert not traces.is_traced()


def _rewrite(folder: Path) -> None:
    """Write that another program is kept."""
    name = _find(folder).name
    content = recall._captures.read(name)
    assert content is not None
    recall._captures.write(name, content.partition(b" ")[0] + b" " + b"00" * 32)


@pytest.mark.slow
def test_entries_of_another_program(traces: Traces) -> None:
    """An entry whose program has another root, other slots, or is no entry, is not taken."""
    traces.capture()
    _rewrite(traces.folder)
    assert traces.is_traced()
    for content in (b"", b"a", b"a b", b"\xff \xff"):
        recall._captures.write(_find(traces.folder).name, content)
        assert traces.is_traced()
    first = _find(traces.folder)
    wide = replace(make_recipe(), batch=lambda step: (torch.full((4, 3), float(step)),))
    other = capture(wide, trust=True, example="wide").program
    (second,) = {*traces.folder.iterdir()} - {first}
    content = recall._captures.read(second.name)
    assert content is not None
    recall._captures.write(first.name, content)
    assert other.batch[0].shape == (4, 3)
    assert traces.is_traced()


def test_rehearsed_captures_check_what_is_kept(traces: Traces) -> None:
    """A capture that is compared with torch is traced, and finds what is kept to be the same."""
    traces.capture()
    assert capture(make_recipe(), example="a").is_rehearsed
    _rewrite(traces.folder)
    with pytest.raises(CaptureError, match="another program is kept of this example"):
        capture(make_recipe(), example="a")


def test_batches_that_cannot_be_made_again(traces: Traces) -> None:
    """A batch function of other data each time is refused for an example that is recalled, too."""
    traces.capture()
    generator = torch.Generator()
    recipe = replace(make_recipe(), batch=lambda _: (torch.rand(2, 3, generator=generator),))
    with pytest.raises(CaptureError, match="asked for twice"):
        traces.capture(recipe)


def test_no_place_to_keep_captures(traces: Traces) -> None:
    """Where nothing can be written, examples are traced every time."""
    traces.folder.parent.mkdir(parents=True)
    traces.folder.write_text("a file in the place of the folder")
    assert traces.is_traced()
    assert traces.is_traced()


def test_users_files_are_no_examples() -> None:
    """A setting that names a user's file is none of ours, whatever the file is called."""
    describe = setting.describe_example
    assert describe(setting.Setting(program="file.py:mlp")) is None
    settings = [
        setting.Setting(program="mlp"),
        setting.Setting(program="cnn"),
        setting.Setting(program="mlp", size="small"),
        setting.Setting(program="mlp", precision="bf16"),
        setting.Setting(program="mlp", inference=True),
        setting.Setting(program="mlp", seed=1),
    ]
    assert len({describe(each) for each in settings}) == len(settings)


PATCH = """
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "moot.offchain.frontend.capture.captured":
            import torch
            gelu = torch.nn.functional.gelu
            torch.nn.functional.relu = lambda x, inplace=False: gelu(x)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.slow
def test_the_command_recalls(tmp_path: Path) -> None:
    """The command traces an example once, and again where a user's code is in its process."""
    pytest.importorskip("sklearn")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = tmp_path / "cache" / "moot" / "captures"

    def show(**variables: str) -> tuple[str, set[tuple[str, int]]]:
        command = [MOOT, "program", "show", "mlp", "--json"]
        found = subprocess.run(  # noqa: S603 - the command itself
            [*map(str, command), "--trust-capture"],
            env=environment | variables,
            capture_output=True,
            check=True,
            text=True,
        )
        root: str = json.loads(found.stdout)["program_root"]
        return root, {(path.name, path.stat().st_mtime_ns) for path in folder.iterdir()}

    show()  # which makes what later ones only load
    first = show()
    assert len(first[1]) in {1, 2}
    assert show() == first
    (tmp_path / "sitecustomize.py").write_text(PATCH)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    root, kept = show(PYTHONPATH=path)
    assert root != first[0]
    assert kept == first[1]
    assert show() == first
