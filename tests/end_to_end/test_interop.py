"""The command line takes checkpoint folders and Trainers wherever it takes a program."""

from pathlib import Path

import pytest

from tests.end_to_end.command import complaint, moot
from tests.interop_helpers import make_speaker, save_checkpoint

TRAINER = """
from tests.interop_helpers import make_speaker, make_trainer

trainer = make_trainer({folder!r}, make_speaker(layers=1), max_steps=8)
"""


def test_folders_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    """A folder that lacks something is the user's fault, and the line names the folder."""
    name = f"hf:{tmp_path}"
    for words in (("dispute", "--program", name), ("program", "show", name)):
        assert "it has no config.json" in complaint(moot(*words), status=2)


@pytest.mark.slow
def test_a_checkpoint_and_a_trainer_are_disputed(tmp_path: Path) -> None:
    """A checkpoint and a Trainer in a file of the user's are captured and disputed to the end."""
    folder, file = tmp_path / "checkpoint", tmp_path / "train.py"
    save_checkpoint(folder, make_speaker(layers=1))
    file.write_text(TRAINER.format(folder=str(tmp_path)))
    for name in (f"hf:{folder}", f"{file}:trainer"):
        words = ("--program", name, "--trust-capture", "--steps", "2", "--checkpoint-every", "1")
        assert moot("dispute", *words).status == 0
