"""Fetches headless Chromium, for the tests of the report: `python -m tests.browser.fetch`.

It comes from whatever package registry npm is configured with, in one pinned version whose
checksums are below, and is kept in the cache. Nothing else needs it: where it cannot be had, the
tests that would look at a page in it are skipped.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from moot.contracts.compiler import cache_dir

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
PLATFORM = ("Linux", "x86_64")
PACKED = {
    "chromium": "38e1e1649db20fa4ea644bf5987688ce81a4c9eb10e7eae8380b74fc0d699fea",
    "al2023.tar": "a166168dd3e3e9d8743689fff543c5cadb3025c1816c6a154c90dc68a59edd0a",
}
"""The program and the libraries that a machine may lack: the SHA-256 of what the package has."""
TIMEOUT_S = 300
UNPACK = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"


class BrowserMissing(Exception):  # noqa: N818 - says what is the case
    """The browser is not here and cannot be fetched; the message says why."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser: its program, and the environment in which it finds its libraries."""

    program: Path
    environment: dict[str, str]


def get_chromium() -> Browser:
    """Return the browser, fetched if need be, or raise BrowserMissing."""
    if (platform.system(), platform.machine()) != PLATFORM:
        raise BrowserMissing(f"Chromium is pinned for {'/'.join(PLATFORM)} only")
    folder = cache_dir() / "chromium" / VERSION
    if not folder.is_dir():
        _install(folder, _download())
    libraries = f"{folder / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    browser = Browser(folder / "chromium", {**os.environ, "LD_LIBRARY_PATH": libraries})
    _try(browser)
    return browser


def _download() -> dict[str, bytes]:
    """Return the packed files as npm's registry has them."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--fetch-retries=1"]
        _run([*command, "--pack-destination", folder, f"{PACKAGE}@{VERSION}"], folder)
        (archive,) = Path(folder).glob("*.tgz")
        found = {}
        with tarfile.open(archive) as members:
            for name, digest in PACKED.items():
                member = members.extractfile(f"package/bin/{name}.br")
                assert member is not None
                found[name] = member.read()
                if hashlib.sha256(found[name]).hexdigest() != digest:
                    raise BrowserMissing(f"npm's {name} is not the one whose checksum is pinned")
        return found


def _install(folder: Path, packed: dict[str, bytes]) -> None:
    """Put the browser into the cache, all at once; others may be doing the same."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
            draft = Path(aside, folder.name)
            draft.mkdir()
            program = draft / "chromium"
            program.write_bytes(_unpack(packed["chromium"]))
            program.chmod(0o755)
            with tarfile.open(fileobj=io.BytesIO(_unpack(packed["al2023.tar"]))) as libraries:
                # Early releases of Python 3.11 have no filter.
                libraries.extraction_filter = getattr(tarfile, "data_filter", None)
                libraries.extractall(draft)  # noqa: S202 - it was checked by its hash
            try:
                draft.rename(folder)
            except OSError:
                if not folder.is_dir():  # nobody else was faster
                    raise
    except OSError as error:
        raise BrowserMissing(f"the cache cannot be written: {error}") from error


def _unpack(packed: bytes) -> bytes:
    """Return what was packed by Brotli, which node knows."""
    return _run(["node", "-e", UNPACK], None, packed)


def _try(browser: Browser) -> None:
    """Start the browser, and let it say its version."""
    _run([str(browser.program), "--version"], None, environment=browser.environment)


def _run(
    command: list[str],
    folder: str | None,
    given: bytes | None = None,
    environment: dict[str, str] | None = None,
) -> bytes:
    """Return what a program prints, or raise BrowserMissing if it fails."""
    program = shutil.which(command[0])
    if program is None:
        raise BrowserMissing(f"Chromium is not in the cache, and there is no {command[0]} here")
    try:
        done = subprocess.run(  # noqa: S603 - every word of the command is ours
            [program, *command[1:]],
            check=True,
            capture_output=True,
            input=given,
            timeout=TIMEOUT_S,
            cwd=folder,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BrowserMissing(f"{command[0]} failed: {error}") from error
    return done.stdout


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{get_chromium().program}\n")
    except BrowserMissing as missing:
        sys.exit(str(missing))
