"""Folders: checkpoints of the transformers library on the disk, read without network and pickle."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from moot.offchain.errors import CannotTranslate
from moot.offchain.text import show_error

_CONFIG = "config.json"
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TOKENIZERS = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model"),
    *("vocab.json", "vocab.txt", "sentencepiece.bpe.model"),
)
"""Files of which a folder with a tokenizer has one at least."""

_SAVED = "save it with save_pretrained(folder)"
_CONVERT = (
    "convert it to safetensors where you trust it: load it there, and save it with "
    "save_pretrained(folder)"
)


def load_model(folder: Path, dtype: torch.dtype) -> Any:
    """Return the model of a checkpoint folder, in evaluation mode.

    Args:
        folder: what `save_pretrained` has written.
        dtype: the type of the weights, whatever the folder has.

    Raises:
        CannotTranslate: the folder is no checkpoint, it is incomplete, or reading it would run
            code or unpickle something.
    """
    _check_files(folder)
    kind = _find_class(folder)
    try:
        with _without_bars():
            model, report = kind.from_pretrained(
                folder,
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
    except Exception as error:  # whatever a damaged file makes the library raise
        raise _refuse(folder, f"it can't be loaded ({show_error(error)})", _SAVED) from error
    absent = sorted(report["missing_keys"])
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        problem = f"it has no weights for {absent[0]}{more} of {kind.__name__}"
        raise _refuse(folder, problem, "save the whole model, with its head")
    model.config.use_cache = False
    return model.eval()


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a checkpoint folder.

    Raises:
        CannotTranslate: it has none, or none that can be read without running code of the folder's.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 - heavy and optional

    if not any((folder / name).is_file() for name in _TOKENIZERS):
        problem = "it has no tokenizer, and a text was asked for"
        raise _refuse(folder, problem, "save the tokenizer there, too, or give batches of your own")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # as above
        problem = f"its tokenizer can't be loaded ({show_error(error)})"
        raise _refuse(folder, problem, "save it with tokenizer.save_pretrained(folder)") from error


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the library's progress bars off stderr, which has lines of ours alone."""
    from transformers.utils import logging  # noqa: PLC0415 - heavy and optional

    was_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_shown:
            logging.enable_progress_bar()


def _check_files(folder: Path) -> None:
    """Refuse a folder that lacks a file, or has pickled weights only."""
    if not folder.is_dir():
        raise _refuse(folder, "there is no such folder", "name one that is on this machine")
    if not (folder / _CONFIG).is_file():
        raise _refuse(folder, f"it has no {_CONFIG}", _SAVED)
    if (folder / _WHOLE).is_file():
        return
    if (folder / _INDEX).is_file():
        shards = _read_json(folder, _INDEX).get("weight_map", {})
        absent = sorted({*map(str, shards.values())} - {it.name for it in folder.iterdir()})
        if absent:
            problem = f"{len(absent)} of its shards are missing, {absent[0]} first"
            raise _refuse(folder, problem, "copy the whole folder")
        return
    pickled = next((name for name in _PICKLED if (folder / name).exists()), None)
    if pickled is not None:
        problem = f"its weights are pickled ({pickled}), and loading them may run any code"
        raise _refuse(folder, problem, _CONVERT)
    raise _refuse(folder, f"it has no weights, neither {_WHOLE} nor {_INDEX}", _SAVED)


def _find_class(folder: Path) -> Any:
    """Return the class that a folder's configuration names, which the library itself must have."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers  # noqa: PLC0415 - heavy and optional

    config = _read_json(folder, _CONFIG)
    advice = "give a model that the installed transformers library has"
    if config.get("quantization_config"):
        raise _refuse(folder, "its weights are quantized", "give it as it was before")
    names = config.get("architectures") or []
    if not names:
        raise _refuse(folder, f"its {_CONFIG} names no architecture", _SAVED)
    kind = getattr(transformers, str(names[0]), None)
    if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
        return kind
    if config.get("auto_map"):
        raise _refuse(folder, f"{names[0]} is code of the folder's own, which is not run", advice)
    version = transformers.__version__
    raise _refuse(folder, f"transformers {version} knows no architecture {names[0]}", advice)


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return what a file of a folder says."""
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refuse(folder, f"its {name} can't be read ({show_error(error)})", _SAVED) from error
    if not isinstance(found, dict):
        raise _refuse(folder, f"its {name} has no object", _SAVED)
    return found


def _refuse(folder: Path, problem: str, advice: str) -> CannotTranslate:
    return CannotTranslate(f"the checkpoint {folder}", problem, advice)
