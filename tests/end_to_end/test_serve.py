"""`moot serve`, as a newcomer starts and stops it."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.command import MOOT
from tests.serving_checkpoints import make_checkpoint, make_client

SERVE = [str(MOOT), "serve", "--port", "0", "--json"]


@pytest.mark.slow
def test_a_folder_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    """The command says where it answers, answers the official client, and ends when it is told."""
    folder = make_checkpoint(tmp_path / "tiny")
    options = ["--model", str(folder), "--no-receipts", "--slots", "1", "--context", "40"]
    with subprocess.Popen([*SERVE, *options], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        assert process.stdout is not None
        lines = iter(process.stdout)
        try:
            said = next(line for line in map(json.loads, lines) if line["event"] == "answering")
            with make_client(said["url"].removesuffix("/v1")) as client:
                answer = client.completions.create(model="tiny", prompt="the cat", max_tokens=3)
            assert answer.usage.completion_tokens in range(1, 4)
            assert not hasattr(answer, "receipt")
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) in {0, -signal.SIGTERM}


REFUSED = {
    "nothing": ([], "Missing option '--model'"),
    "no key": (["--model", "tiny"], "choose --no-receipts"),
    "both": (["--model", "tiny", "--receipts", "x", "--no-receipts"], "exclude each other"),
    "adapter": (["--model", "tiny", "--no-receipts", "--adapter", "x"], "is no NAME=FOLDER"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nonsense_is_refused_before_anything_is_loaded(name: str) -> None:
    """What the command can't do is said in one line."""
    options, message = REFUSED[name]
    done = subprocess.run(  # noqa: S603 - our own command
        [*SERVE, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
