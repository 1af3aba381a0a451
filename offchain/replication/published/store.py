"""A trainer's checkpoints, with its whole state."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from moot.offchain.errors import LogError


def name_checkpoint(folder: Path, steps: int) -> Path:
    """Return the file of the state after some steps."""
    return folder / f"checkpoint-{steps}.safetensors"


def read_checkpoint(folder: Path, steps: int) -> dict[str, Tensor]:
    """Return the state after some steps that a trainer has written; `LogError` if there is none."""
    try:
        return load_file(name_checkpoint(folder, steps))
    except (OSError, SafetensorError) as error:
        raise LogError(f"the checkpoint after {steps} steps can't be read: {error}") from error


def load_checkpoint(folder: Path, steps: int, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state after some steps, with the names and shapes of another state.

    Raises:
        LogError: there is none, or it has other tensors.
    """
    state = read_checkpoint(folder, steps)
    shapes = {name: tuple(tensor.shape) for name, tensor in like.items()}
    if {name: tuple(tensor.shape) for name, tensor in state.items()} != shapes:
        raise LogError(f"the checkpoint after {steps} steps has other tensors than the recipe")
    return state
