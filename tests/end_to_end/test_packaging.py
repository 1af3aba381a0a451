"""The distribution: what the wheel holds, and what it does where the checkout is not."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.documents import ROOT, list_blocks

PACKED = ("bench", "contracts", "moot", "offchain", "sim")
FILES = ("LICENSE", "README.md", "pyproject.toml")
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_{kind}(sys.argv[1]))"
DATA = {".css", ".html", ".js", ".json", ".csv", ".toml", ".vy", ".vyi", ".typed"}


def run(words: Sequence[str | Path], folder: Path) -> str:
    """Return what a program prints in a folder, without the checkout on its path."""
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(  # noqa: S603 - ours
        list(map(str, words)),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(source: Path, kind: str, target: Path) -> Path:
    """Build a wheel or an sdist of a folder; nothing is fetched."""
    target.mkdir(exist_ok=True)
    printed = run([sys.executable, "-c", BUILD.format(kind=kind), target], source)
    return target / printed.splitlines()[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packed, links as links: building leaves files beside it."""
    folder = tmp_path_factory.mktemp("packed") / "source"
    folder.mkdir()
    for name in PACKED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """The wheel."""
    return build(source, "wheel", source.parent / "wheel")


def list_wanted() -> set[str]:
    """Return the names in the wheel of all modules and of all data beside them."""
    wanted = set()
    for name in PACKED:
        place = Path() if name == "moot" else Path("moot")
        for path in (ROOT / name).rglob("*"):
            is_own = path.resolve() == path and "__pycache__" not in path.parts
            if is_own and path.suffix in {".py", *DATA}:
                wanted.add(str(place / path.relative_to(ROOT)))
    return wanted


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    """The wheel has `moot` alone: all modules, Vyper sources, pages and tables, and no test."""
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    assert names == list_wanted()
    assert {name.split("/")[0] for name in names} == {"moot"}
    assert "moot/py.typed" in names


def test_the_version_stands_in_one_place(wheel: Path) -> None:
    """The wheel has the version of pyproject.toml, and no module of ours has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert wheel.name == f"moot-{project['version']}-py3-none-any.whl"
    modules = [path for name in PACKED for path in (ROOT / name).rglob("*.py")]
    assert [path for path in modules if f'"{project["version"]}"' in path.read_text()] == []


@pytest.mark.slow
def test_an_sdist_makes_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    """The wheel of an unpacked sdist, in which nothing is linked, has the files of ours."""
    packed = build(source, "sdist", tmp_path / "sdist")
    with tarfile.open(packed) as file:
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # of Python 3.11.4
        file.extractall(tmp_path)  # noqa: S202 - we have just made it
    again = build(tmp_path / packed.name.removesuffix(".tar.gz"), "wheel", tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as other:
        assert sorted(ours.namelist()) == sorted(other.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The Python of a new environment with the wheel, whose requirements are those of the tests'.

    A `.pth` file names the folder that has them; links in that folder, to this checkout, are not
    followed, since they are files of that kind themselves.
    """
    folder = wheel.parents[1] / "environment"
    run([sys.executable, "-m", "venv", folder], wheel.parent)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    run(pip, wheel.parent)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run([python, "-c", code], wheel.parent).strip())
    (packages / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_only_moot_is_installed(installed: Path, tmp_path: Path) -> None:
    """One name is installed at the top level, and what is imported is not the checkout's."""
    code = (
        "from importlib.metadata import files\n"
        "import moot\n"
        "print(moot.__file__)\n"
        "print(*sorted({p.parts[0] for p in files('moot')} - {'..'}))\n"
    )
    place, names = run([installed, "-c", code], tmp_path).splitlines()
    assert Path(place).is_relative_to(installed.parents[1])
    assert [name for name in names.split() if not name.endswith(".dist-info")] == ["moot"]


@pytest.mark.slow
def test_the_readme_runs_as_written(installed: Path, tmp_path: Path) -> None:
    """The README's Python block runs where the checkout is not."""
    (block,) = (b for b in list_blocks((ROOT / "README.md").read_text()) if b.language == "python")
    (tmp_path / "block.py").write_text(block.code)
    assert run([installed, "block.py"], tmp_path)


@pytest.mark.slow
def test_the_demo_runs(installed: Path, tmp_path: Path) -> None:
    """`moot demo` finds a scalar where the checkout is not."""
    assert "Found in step" in run([installed.with_name("moot"), "demo"], tmp_path)
