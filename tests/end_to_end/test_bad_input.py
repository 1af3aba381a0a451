"""Bad input gets one clear line, an exit status, and leaves nothing behind."""

import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from moot.offchain.errors import UsageError
from moot.offchain.providers.setting import Setting, check_setting
from tests.end_to_end.command import MOOT, Done, complaint, moot, split_lines
from tests.quick import every

ROOT = Path(__file__).parents[2]
QUICK = ("--program", "mlp", "--steps", "4", "--checkpoint-every", "2")


def moot_process(*words: str, limit: Callable[[], None] | None = None) -> Done:
    """Run the command as a user would."""
    done = subprocess.run(  # noqa: S603 - our own command
        [MOOT, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        preexec_fn=limit,
    )
    said, others = split_lines(done.stderr)
    return Done(done.returncode, done.stdout, others, said)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("disptue",), "did you mean 'dispute'"),
        (("dispute", "--program", "gpt3"), "did you mean 'gpt2'"),
        (("dispute", "--program", "GPT2"), "did you mean 'gpt2'"),
        (("dispute", "--size", "huge"), "'huge'"),
        (("dispute", "--cheat", "wrong-outptu"), "did you mean 'wrong-output'"),
        (("dispute", "--cheat", "wrong-output:stp=1"), "did you mean 'step'"),
        (("dispute", "--cheat", "wrong-output:step"), "key=value"),
        (("dispute", "--leaf", "scaler"), "did you mean 'scalar'"),
        (("dispute", "--bond", "0.1"), "too small"),
        (("dispute", "--steps", "0"), "--steps 0"),
        (("dispute", *QUICK, "--checkpoint-every", "9"), "choose a number from 1 to 4"),
        (("dispute", *QUICK, "--cheat", "wrong-output:operator=mm_99"), "did you mean 'mm"),
        (("dispute", *QUICK, "--cheat", "wrong-output:step=4"), "outside 0 to 3"),
        (("dispute", *QUICK, "--cheat", "wrong-output:bit=x"), "not a whole number"),
        (("dispute", "--program", "nowhere.py:f"), "nowhere.py"),
        (("dispute", "--program", f"{__file__}:missing"), "missing"),
        (("dispute", "--colour", "red"), "--colour"),
        (("dispute", "--jsonn"), "did you mean '--json'?"),
        (("dispute", "--seed", "abc"), "'abc' is not a valid integer."),
        (("market", "--mix", "honset=6"), "did you mean 'honest'"),
        (("market", "--mix", f"honest={10**26 - 1}"), "have fewer"),
        (("program", "show", "lama"), "did you mean 'llama'"),
        (("program", "show", "/missing.py:build"), "there is no file /missing.py"),
        (("bench", "ops", "--only", "matmol"), "did you mean 'matmul'"),
        (("bench", "hash", "--threads", "99999"), "numbers from 1 to 256"),
    ],
)
def test_bad_arguments_exit_with_2(words: tuple[str, ...], says: str) -> None:
    """What is asked for and does not exist is named, with what would do instead."""
    assert says in complaint(moot(*words), status=2)


def test_bad_arguments_are_refused_before_the_work(tmp_path: Path) -> None:
    """A bad interval is refused before the capture, and a bad cheat before any provider runs."""
    with pytest.raises(UsageError, match="choose a number from 1 to 4"):
        check_setting(Setting(steps=4, checkpoint_every=9))
    kept = tmp_path / "kept"
    words = ("--cheat", "wrong-output:step=4", "--store", str(kept))
    complaint(moot("dispute", *QUICK, *words), status=2)
    assert not kept.exists()


def test_a_process_exits_with_its_status() -> None:
    """A refused command's one line is all that its process prints, and its status is the exit's."""
    assert "did you mean 'dispute'" in complaint(moot_process("disptue"), status=2)
    words = ("dispute", "--cheat", "wrong-outptu")
    assert "did you mean 'wrong-output'" in complaint(moot_process(*words), status=2)


def test_a_port_where_no_chain_answers() -> None:
    """A chain that cannot be reached is an error, not a traceback."""
    line = complaint(moot_process("dispute", "--chain", "http://127.0.0.1:9"), status=1)
    assert "http://127.0.0.1:9" in line


def test_a_cheat_that_changes_nothing_is_refused() -> None:
    """A lie that the last checkpoint does not show is no lie."""
    cheat = "wrong-output:step=0,operator=next:output.loss,element=0,bit=3,position=0"
    line = complaint(moot("dispute", *QUICK, "--cheat", cheat), status=2)
    assert "this cheat computes the honest answer" in line


@pytest.mark.slow  # no kernel can be kept: all are compiled
def test_a_full_disk_is_named() -> None:
    """When a checkpoint cannot be written, the store says so and the run ends."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    line = complaint(moot_process("dispute", *QUICK, limit=limit), status=1)
    assert "no room" in line


MODEL = """
import torch
from moot.offchain.frontend.recipe import *
from moot.offchain.frontend.optimizers import *

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
    def forward(self, x):
        {body}

def make(seed):
    torch.manual_seed(seed)
    model = Net()
    def loss(model, x):
        return model(x).square().mean()
    def batch(step):
        x = torch.ones(2, 4)
        {batch}
        return (x,)
    return TrainingRecipe(model=model, loss=loss, optimizer=SGD(learning_rate=0.1), batch=batch)
"""


def write_model(path: Path, body: str, batch: str = "pass") -> str:
    """Write a user's model and return its specification."""
    path.write_text(MODEL.format(body=body, batch=batch))
    return f"{path}:make"


@pytest.mark.parametrize(
    ("body", "says"),
    every(
        6,
        [
            ("return self.linear(x) if x.sum() > 3 else x", "depend on data"),
            ("return torch.special.i0e(self.linear(x))", "special_i0e"),
            ("return self.linear(x).double()", "float64"),
        ],
    ),
)
def test_what_cannot_be_captured_is_named(tmp_path: Path, body: str, says: str) -> None:
    """Control flow on data, unknown operators and types are refused with the user's line."""
    spec = write_model(tmp_path / "model.py", body)
    line = complaint(moot("program", "show", spec), status=1)
    assert says in line
    assert "model.py:11" in line


@pytest.mark.parametrize("value", every(6, ["float('nan')", "float('inf')", "-float('inf')"]))
def test_nan_and_infinity_in_data_work(tmp_path: Path, value: str) -> None:
    """Numbers that are not finite are computed, committed and disputed like others."""
    spec = write_model(tmp_path / "model.py", "return self.linear(x)", f"x[0, 1] = {value}")
    cheat = "wrong-output:step=1,operator=next:output.loss,element=0,bit=30,position=0"
    words = ("--program", spec, "--steps", "2", "--checkpoint-every", "1", "--cheat", cheat)
    done = moot("dispute", *words, "--json")
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["located"]["operator"]["name"] == "next:output.loss"
