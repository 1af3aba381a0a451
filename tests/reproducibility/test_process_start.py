"""Roots are the same, or refused, in a process that was hostile before it imported Moot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from tests.reproducibility.history import compute_history
from tests.reproducibility.settings import IS_X86, SETTINGS, STRANGE, Setting, build_fast_math

ROOT = Path(__file__).parents[2]


def start_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def train_here() -> str:
    """Return what `train` comes to in a process that nobody has changed."""
    return " ".join(compute_history(capture(build("mlp")), 2, 2))


@pytest.mark.parametrize(
    "settings",
    [
        [
            *(s for s in STRANGE if s.rounding),
            Setting(0, flushes_results=True, flushes_operands=True),
        ],
        pytest.param([s for s in SETTINGS if not s.rounding], marks=pytest.mark.slow),
    ],
    ids=["most", "nearest"],
)
def test_settings_before_the_import_change_nothing_or_are_refused(settings: list[Setting]) -> None:
    """Where literals would be misread, Moot is not imported; flushing alone does not matter."""
    numbers = [str(SETTINGS.index(setting)) for setting in settings]
    done = start_python("-m", "tests.reproducibility.settings", *numbers)
    assert done.returncode == 0, done.stderr
    for setting, said in zip(settings, json.loads(done.stdout), strict=True):
        if setting.rounding:
            assert said.startswith("refused: this process does not round to nearest")
            assert "\n" not in said
        else:
            assert said == train_here()


def test_the_command_refuses_a_process_that_rounds_otherwise() -> None:
    """The command ends in one line, and status 1, where a preloaded library has made a setting."""
    mode = 0x400 if IS_X86 else 0x800000
    code = f"import ctypes; ctypes.PyDLL(None).fesetround({mode}); import moot.command.main"
    done = start_python("-c", code)
    assert done.returncode == 1
    assert done.stderr.startswith("moot: this process does not round to nearest")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_fast_math_libraries_that_are_preloaded_do_not_matter(tmp_path: Path) -> None:
    """A process that flushes from its first instruction comes to the same roots."""
    library = build_fast_math(tmp_path)
    if library is None:
        pytest.skip("there is no compiler for x86")
    code = "from tests.reproducibility.settings import read, train; print(train(), *read())"
    done = start_python("-c", code, LD_PRELOAD=str(library))
    assert done.stdout.split() == [*train_here().split(), "0", "True", "True"], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "assignment",
    [
        "OMP_NUM_THREADS=7",
        "MKL_NUM_THREADS=1",
        "MKL_CBWR=COMPATIBLE",
        "OPENBLAS_NUM_THREADS=1",
        "NUMBA_OPT=0",
        "NUMBA_BOUNDSCHECK=1",
        "NUMBA_ENABLE_AVX=0",
        "NUMBA_NUM_THREADS=1",
        "NUMBA_THREADING_LAYER=workqueue",
        "NUMBA_LOOP_VECTORIZE=0",
        "NUMBA_SLP_VECTORIZE=1",
        "PYTHONOPTIMIZE=2",
        "LC_ALL=C",
    ],
)
def test_variables_of_libraries_do_not_matter(assignment: str) -> None:
    """What numba, OpenMP and the linear algebra libraries read changes no root."""
    code = "from tests.reproducibility.settings import train; print(train())"
    name, _, value = assignment.partition("=")
    assert start_python("-c", code, **{name: value}).stdout.strip() == train_here()


def test_numba_without_its_compiler_is_refused() -> None:
    """Where numba is told not to compile, there is one line that says so."""
    code = "from moot.offchain.commitments.tensors import *; compute_tensor_root(np.ones(9))"
    done = start_python("-c", code.replace("9", "9, np.float32"), NUMBA_DISABLE_JIT="1")
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith("NUMBA_DISABLE_JIT is set; unset it, kernels run as machine code only")
    )
