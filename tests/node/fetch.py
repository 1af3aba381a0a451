"""Fetches anvil, a real node, for the tests that play on one: `python -m tests.node.fetch`.

It comes from whatever package registry npm is configured with, in one pinned version whose
checksum is below, and is kept in the cache. Nothing else needs it: where it cannot be had, the
tests that would play on it are skipped.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from moot.contracts.compiler import cache_dir

VERSION = "1.7.1"
PACKAGES = {
    ("Linux", "x86_64"): (
        "@foundry-rs/anvil-linux-amd64",
        "10c1c727d6c1de973aeb160e59875b9a9a23464d6e74149ee8abb30b3500311b",
    ),
}
"""By system and machine: the package, and the SHA-256 of the program in it."""
MEMBER = "package/bin/anvil"
TIMEOUT_S = 300


class NodeMissing(Exception):  # noqa: N818 - says what is the case
    """The node is not here and cannot be fetched; the message says why."""


def get_anvil() -> Path:
    """Return where the program is, fetched if need be, or raise NodeMissing."""
    found = PACKAGES.get((platform.system(), platform.machine()))
    if found is None:
        raise NodeMissing(f"anvil is pinned for {', '.join(map('/'.join, PACKAGES))} only")
    package, digest = found
    program = cache_dir() / "anvil" / VERSION / "anvil"
    if not (program.is_file() and _hash(program.read_bytes()) == digest):
        _install(program, _download(package), digest)
    return program


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(package: str) -> bytes:
    """Return the program as npm's registry has it."""
    npm = shutil.which("npm")
    if npm is None:
        raise NodeMissing("anvil is not in the cache, and there is no npm to fetch it with")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", "--fetch-retries=1"]
        command += ["--pack-destination", folder, f"{package}@{VERSION}"]
        try:
            subprocess.run(  # noqa: S603 - every word of the command is ours
                command, check=True, capture_output=True, timeout=TIMEOUT_S, cwd=folder
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NodeMissing(f"npm could not fetch {package}@{VERSION}: {error}") from error
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as members:
            program = members.extractfile(MEMBER)
            assert program is not None
            return program.read()


def _install(program: Path, content: bytes, digest: str) -> None:
    """Put the program into the cache, all at once; others may be doing the same."""
    if _hash(content) != digest:
        raise NodeMissing("what npm fetched is not the anvil whose checksum is pinned")
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as aside:
            draft = Path(aside, program.name)
            draft.write_bytes(content)
            draft.chmod(0o755)
            draft.replace(program)
    except OSError as error:
        raise NodeMissing(f"the cache cannot be written: {error}") from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{get_anvil()}\n")
    except NodeMissing as missing:
        sys.exit(str(missing))
