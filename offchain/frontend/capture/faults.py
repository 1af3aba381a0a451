"""Faults where a step is traced, lowered or rehearsed, in one line each with the user's line.

What eager torch raises, too, is the user's to read, as Python raised it. Anything else is torch's,
which can't trace the step, or a fault of ours.
"""

import logging
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import FrameType

import torch

from moot.offchain.errors import CaptureError, CaptureFault, MootError
from moot.offchain.frontend.lines import show_line
from moot.offchain.frontend.lowering.builder import FaultError
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.neighbours import OURS, is_of_user
from moot.offchain.text import show_error

_TORCH = str(Path(torch.__file__).parent)
_PACKAGES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_PYTHON = (sysconfig.get_path("stdlib"), "<")
_EAGER = (
    *(str(Path(__file__).with_name(f"{name}.py")) for name in ("batches", "eager", "stepping")),
    str(Path(__file__).parents[1] / "recipe.py"),
)
"""Files of ours in which a recipe's code runs as eager torch runs it."""

_FAKE = re.compile(r"\bFakeTensor\b")
"""What torch calls a tensor that is traced."""

_NOISY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""Loggers by which torch says what it raises, too."""

Places = Sequence[tuple[FrameType, int]]
"""The frames that an exception has passed, outermost first, and the lines that they were at."""


@contextmanager
def tracing(
    model: torch.nn.Module | None = None, run_eagerly: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Make one line of what is raised within, unless eager torch raises it, too.

    Args:
        model: the model, whose modules the line names.
        run_eagerly: makes the first step in eager torch, where a step is traced within.

    Raises:
        CaptureError: torch can't trace the step.
        CaptureFault: our own code fails.
    """
    try:
        with _without_noise():
            yield
    except MootError:
        raise
    except FaultError as fault:
        operator, line, caught = fault.operator, fault.line, fault.__cause__
    except Exception as error:  # noqa: BLE001 - whatever torch, a package or we raise
        operator, line, caught = "", "", error
    else:
        return
    assert isinstance(caught, Exception)
    places = _list_places(caught)
    if any(frame.f_code.co_filename in _EAGER for frame, _ in places):
        _raise_if_of_recipe(caught)
    names = {id(module): name for name, module in model.named_modules()} if model else {}
    _raise_what_is_eager(run_eagerly)
    raise _explain(caught, operator, _find_line(places, names) or line) from caught


def _raise_what_is_eager(run_eagerly: Callable[[], None]) -> None:
    """Raise what the recipe's own code raises in eager torch, if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were heard when the step was traced
            run_eagerly()
    except MootError:
        return
    except Exception as error:  # noqa: BLE001 - whatever a user's code raises
        caught = error
    else:
        return
    _raise_if_of_recipe(caught)


def _raise_if_of_recipe(error: Exception) -> None:
    """Raise what eager torch has raised, as it is where a line of the user's is to blame."""
    files = [frame.f_code.co_filename for frame, _ in _list_places(error)]
    if files[-1].startswith(OURS) and files[-1] not in _EAGER:
        return
    if any(map(is_of_user, files)):
        raise error
    raise CaptureError(f"the recipe's own code fails: {show_error(error)}") from error


def _explain(error: Exception, operator: str, line: str) -> CaptureError:
    """Return the line that says what fails, and where."""
    said, subject = _FAKE.sub("Tensor", show_error(error)), operator or "step"
    frame, number = _list_places(error)[-1]
    path = frame.f_code.co_filename
    if path.startswith(OURS):
        message = f"this is a fault of moot: {said} at {Path(path).name}:{number}"
        return refusal(message, subject, line, CaptureFault)
    if path.startswith(_TORCH):
        return refusal(f"torch can't trace it ({said}); compute it in another way", subject, line)
    message = f"it fails on tensors without elements, and not in eager torch ({said}); leave it out"
    return refusal(message, subject, line)


def _list_places(error: BaseException) -> Places:
    """Return the frames that an exception has passed, without those of Python's own library."""
    places = list(walk_tb(error.__traceback__))
    found = [it for it in places if not _is_of_python(it[0].f_code.co_filename)]
    return found or places


def _is_of_python(path: str) -> bool:
    return path.startswith(_PYTHON) and not path.startswith(_PACKAGES)


def _find_line(places: Places, names: Mapping[int, str]) -> str:
    """Return the innermost line outside torch and Moot, as `LineTracker` does, or nothing."""
    for depth in reversed(range(len(places))):
        frame, number = places[depth]
        path = frame.f_code.co_filename
        if not path.startswith((_TORCH, OURS)) and not _is_of_python(path):
            owners = (id(frame.f_locals.get("self")) for frame, _ in reversed(places[: depth + 1]))
            module = next((names[owner] for owner in owners if names.get(owner)), "model")
            return show_line(module, path, number)
    return ""


@contextmanager
def _without_noise() -> Iterator[None]:
    """Put off the loggers by which torch says what it raises."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    were = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.disabled = was
