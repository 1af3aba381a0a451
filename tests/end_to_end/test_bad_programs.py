"""A user's file that fails is reported on one line, with its own line number and no traceback."""

import json
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import complaint, moot
from tests.leftovers import leaving_nothing
from tests.quick import every

MODEL = """
import torch
from moot.offchain.frontend.recipe import *
from moot.offchain.frontend.optimizers import *
{top}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
    def forward(self, x):
        {body}
        return self.linear(x)

def make(seed):
    torch.manual_seed(seed)
    model = Net()
    {build}
    def loss(model, x):
        {loss}
        return model(x).square().mean()
    data = iter([(torch.ones(2, 4),)])
    def batch(step):
        x = torch.ones(2, 4)
        {batch}
        return (x,)
    return TrainingRecipe(model=model, loss=loss, optimizer=SGD(learning_rate=0.1), batch=batch)
"""

PARTS = ("top", "body", "build", "loss", "batch")


def write(path: Path, **parts: str) -> str:
    """Write a user's file with one part changed, and return what names its recipe."""
    path.write_text(MODEL.format(**{part: parts.get(part, "pass") for part in PARTS}))
    return f"{path}:make"


ERRORS: dict[str, tuple[dict[str, str], str]] = {
    "syntax": ({"top": "x = = 1"}, "model.py:5: `x = = 1` raised SyntaxError: invalid syntax"),
    "indentation": ({"top": "  x = 1"}, "model.py:5: `x = 1` raised IndentationError"),
    "import": ({"top": "import no_such_module"}, "`import no_such_module` raised ModuleNotFound"),
    "top": ({"top": "x = 1 / 0"}, "model.py:5: `x = 1 / 0` raised ZeroDivisionError: division"),
    "build": ({"build": "[][1]"}, "model.py:18: `[][1]` raised IndexError: list index"),
    "loss": ({"loss": "x.nothing()"}, "`x.nothing()` raised AttributeError"),
    "forward": ({"body": "raise KeyError('weight')"}, "raised KeyError: 'weight'"),
    "batch": ({"batch": "x = step.size"}, "`x = step.size` raised AttributeError"),
    "later batch": ({"batch": "assert step < 2, step"}, "`assert step < 2, step` raised Assert"),
    "no more data": ({"batch": "return next(data)"}, "reads an iterator (list_iterator)"),
    "multiline": ({"loss": r"raise ValueError('one\ntwo')"}, "raised ValueError: one"),
    "exit": ({"build": "raise SystemExit(3)"}, "`raise SystemExit(3)` raised SystemExit: 3"),
    "recursion": ({"body": "return self.forward(x)"}, "raised RecursionError"),
    "shapes": ({"body": "x = x @ x"}, "model.py:12: `x = x @ x` raised RuntimeError"),
    "module shapes": ({"batch": "x = torch.ones(2, 5)"}, "`return self.linear(x)` raised Runtime"),
    "device": ({"batch": "x = x.to('cuda:0')"}, "`x = x.to('cuda:0')` raised"),
    "own function": ({"build": "AdamW(lr=1)"}, "`AdamW(lr=1)` raised TypeError"),
    "backward": (
        {
            "top": "class F(torch.autograd.Function):\n"
            "    forward = staticmethod(lambda ctx, x: x.clone())\n"
            "    backward = staticmethod(lambda ctx, g: g.nothing)",
            "body": "x = F.apply(self.linear.weight).sum() + x",
        },
        "model.py:7: `backward = staticmethod(lambda ctx, g: g.nothing)` raised AttributeError",
    ),
    "custom error": (
        {"top": "class E(Exception):\n    def __str__(self): raise ValueError", "build": "raise E"},
        "`raise E` raised E",
    ),
}


@pytest.mark.parametrize("case", every(6, ERRORS))
def test_a_users_error_names_their_line(tmp_path: Path, case: str) -> None:
    """Wherever a user's code fails, the line says where, what stands there and what went wrong."""
    parts, says = ERRORS[case]
    with leaving_nothing():
        done = moot("program", "show", write(tmp_path / "model.py", **parts))
    assert says in complaint(done, status=1)


def test_nothing_is_published_of_a_program_that_fails(tmp_path: Path) -> None:
    """The store that was made for it is gone again; one that was there stays as it was."""
    parts, says = ERRORS["custom error"]
    program, kept = write(tmp_path / "model.py", **parts), tmp_path / "kept"
    (kept / "programs").mkdir(parents=True)
    for place in (tmp_path / "new", f"local://{tmp_path}/other", kept, f"local://{kept}"):
        done = moot("program", "publish", program, str(place))
        assert says in complaint(done, status=1)
    assert {it.name for it in tmp_path.iterdir()} - {"__pycache__"} == {"kept", "model.py"}


MODELS: dict[str, tuple[dict[str, str], str]] = {
    "compiled": ({"build": "model = torch.compile(model)"}, "the model is compiled"),
    "compiled in place": ({"build": "model.linear.compile()"}, "module linear is compiled"),
    "scripted": ({"build": "model = torch.jit.script(model.linear)"}, "the model is scripted"),
    "lazy": ({"build": "model = torch.nn.LazyLinear(3)"}, "weight has no shape yet"),
    "lazy norm": ({"build": "model = torch.nn.LazyBatchNorm1d()"}, "weight has no shape yet"),
    "elsewhere": ({"build": "model = Net().to('meta')"}, "tensor on meta"),
    "no module": ({"build": "model = 3"}, "the model is 3; give a torch.nn.Module"),
    "no recipe": ({"build": "return 3"}, "returns int; return a recipe"),
    "no parameters": ({"build": "model = torch.nn.Identity()"}, "depends on a parameter"),
    "frozen": ({"build": "model.requires_grad_(False)"}, "depends on a parameter"),
    "generator": (
        {"body": "x = x + torch.rand(2, 4, generator=torch.Generator())"},
        "it draws from a generator; leave that out, and the recipe's seed draws",
    ),
    "sparse": ({"body": "x = x.to_sparse().to_dense()"}, "no rule expresses this operator"),
    "named": ({"body": "x = x.rename('a', 'b')"}, "`x = x.rename('a', 'b')` raised"),
    "arrays": ({"batch": "import numpy; x = numpy.ones(4)"}, "has a ndarray in it"),
    "no batch": ({"batch": "return None"}, "is a NoneType; return a tuple of tensors"),
    "loss of names": ({"loss": "return {'cost': model(x).sum()}"}, "a loss is one number"),
    "loss of many": ({"loss": "return model(x)"}, "a loss is one number"),
    "loss of Python": ({"loss": "return 1.0"}, "loss: it is 1.0; a loss is one number"),
    "loss of two": ({"loss": "return model(x).sum(), x"}, "loss: it is a tuple; a loss is one"),
    "half": ({"build": "model = model.half()"}, "call model.float() first"),
    "other keys": (
        {"batch": "if step == 7: return {'y': x}"},
        "batch(7) is a dict; return a tuple of tensors",
    ),
    "shorter": ({"batch": "x = x[step // 7 :][:2]"}, "batch x: float32 (1, 4) in step 7, and"),
    "empty": (
        {"batch": "x = x[step // 7 + step // 8 :]"},
        "batch x: float32 (1, 4) in step 7, and",
    ),
    "time": (
        {"top": "import time", "body": "x = x * (time.time() % 10)"},
        "and its batch alone in model model.py:12 x = x * (time.time() % 10)",
    ),
    "another process": (
        {"top": "import os", "batch": "x = x * os.getpid()"},
        "asked for in a fresh process, gives two different tensors (element 0 is",
    ),
    "no fresh process": (
        {"top": "import os, sys\nif 'pytest' not in sys.modules: raise OSError('no data')"},
        "model.py:make fails in a fresh process: OSError: no data",
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's
@pytest.mark.parametrize("case", every(16, MODELS))
def test_strange_models_are_refused(tmp_path: Path, case: str) -> None:
    """What is no module of plain Python, or leaves torch's ordinary ways, is refused by name."""
    parts, says = MODELS[case]
    with leaving_nothing():
        done = moot("program", "show", write(tmp_path / "model.py", **parts))
    assert says in complaint(done, status=done.status)
    assert done.status in {1, 2}


@pytest.mark.parametrize("case", every(6, ["syntax", "import", "loss", "backward"]))
def test_a_dispute_over_a_file_that_fails(tmp_path: Path, case: str) -> None:
    """A dispute ends as the look at its program does, before anything is stored."""
    parts, says = ERRORS[case]
    spec, store = write(tmp_path / "model.py", **parts), tmp_path / "store"
    with leaving_nothing():
        done = moot("dispute", "--program", spec, "--steps", "2", "--store", str(store))
    assert says in complaint(done, status=1)
    assert not store.exists()


@pytest.mark.slow
def test_what_a_model_shows_is_no_output_of_the_command(tmp_path: Path) -> None:
    """What a model prints goes to stderr, what it writes where it says, and stdout is JSON."""
    log = tmp_path / "log"
    body = f"print('mean', x.mean().item()); print(x, file=open({str(log)!r}, 'a'))"
    top = "import warnings\nwarnings.simplefilter('ignore')\nprint('loaded')"
    with leaving_nothing():
        done = moot("program", "show", write(tmp_path / "model.py", top=top, body=body), "--json")
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["compared_with_torch"]
    assert {"loaded", "mean 1.0", "mean (traced)"} <= {*done.stderr.splitlines()}
    assert "(traced)" in log.read_text()


FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "there is no file"),
    "nulls": (b"x = 1\0", "it has null bytes"),
    "bytes": (b"x = '\xff'", "codec can't decode"),
    "another encoding": ("# coding: latin-1\nx = '\xe9' +".encode("latin-1"), "SyntaxError"),
    "nothing": (b"", "to choose from"),
    "no function": (b"make = 1", "function"),
    "parameters": (b"def make(): return 1", "be called with the seed alone"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_are_no_programs(tmp_path: Path, case: str) -> None:
    """A file that is not there, is no text, or does not define the function is refused."""
    content, says = FILES[case]
    path = tmp_path / "model.py"
    if content is not None:
        path.write_bytes(content)
    done = moot("program", "show", f"{path}:make")
    assert says in complaint(done, status=done.status)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A directory, a path through a file, and a file without the ending are refused."""
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "text").write_text("")
    cases = {
        "folder.py": "",
        "text": "",
        "text/model.py": "there is no file ",
        "a" * 300 + ".py": "cannot read ",
    }
    for name, start in cases.items():
        done = moot("program", "show", f"{tmp_path / name}:make")
        assert complaint(done, status=2).startswith(f"moot: {start}{tmp_path}")


def test_an_interrupted_command(tmp_path: Path) -> None:
    """Control-C in the middle of a user's code ends the command with 130."""
    spec = write(tmp_path / "model.py", body="raise KeyboardInterrupt")
    assert complaint(moot("program", "show", spec), status=130) == "moot: interrupted"


def test_a_fault_of_ours_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that no user's line explains is called a fault, and its traceback is shown."""
    spec = write(tmp_path / "model.py")
    monkeypatch.setattr("moot.offchain.frontend.capture.captured.make_draft", None)
    line = complaint(moot("program", "show", spec), status=70)
    assert "this is a fault of moot: TypeError: 'NoneType' object is not callable at" in line
    assert "captured.py:" in line
    monkeypatch.setenv("MOOT_TRACEBACK", "1")
    done = moot("program", "show", spec)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.splitlines()[-1] == line


@pytest.mark.slow
def test_neighbours_are_imported(tmp_path: Path) -> None:
    """A file imports what stands beside it, early or late, and nothing of that is left behind."""
    before, path = set(sys.modules), list(sys.path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helpers.py").write_text(f"import torch\nNAME = '{name}'")
        (tmp_path / name / "late.py").write_text("import helpers\nNAME = helpers.NAME")
        top = f"import helpers\nassert helpers.NAME == '{name}'"
        batch = f"import late; assert late.NAME == '{name}'"
        spec = write(tmp_path / name / "model.py", top=top, batch=batch, body="import late")
        done = moot("program", "show", spec)
        assert (done.status, done.stderr) == (0, "")
    assert sys.path == path
    assert {"helpers", "late"}.isdisjoint(set(sys.modules) - before)
