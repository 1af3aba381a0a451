"""The floating-point environment of a thread: code that changes it, and code that restores it."""

import numpy as np
import pytest

from moot.offchain.arithmetic.environment import (
    is_standard,
    require_rounding,
    rounds_to_nearest,
    standard_environment,
)
from moot.offchain.errors import UnsuitableEnvironment
from tests.reproducibility.settings import (
    IS_X86,
    SETTINGS,
    STANDARD,
    STRANGE,
    Setting,
    change,
    changed,
    read,
)


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_are_what_they_say(setting: Setting) -> None:
    """What the tests change is what the processor does: in float32 as in numpy."""
    one, least = np.float32(1), np.array([0x00800000, 1], np.uint32).view(np.float32)
    with changed(setting):
        tiny = np.float32(2**-30)
        rounded = float(one + tiny) > 1, float(one - tiny) < 1, float(-one - tiny) < -1
        flushed = not (least[0] * np.float32(0.5)).view(np.uint32), not least[1] * np.float32(2**30)
    up, down, zero = (2, 1, 3) if IS_X86 else (1, 2, 3)
    expected = {0: (False, False, False), up: (True, False, False)}
    expected |= {down: (False, True, True), zero: (False, True, False)}
    assert rounded == expected[setting.rounding]
    assert flushed == (setting.flushes_results, setting.flushes_operands)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_but_the_default_is_noticed(setting: Setting) -> None:
    """What a thread computes tells the default environment from each of the others."""
    with changed(setting):
        assert is_standard() == (setting == STANDARD)
        assert rounds_to_nearest() == (setting.rounding == 0)


@pytest.mark.parametrize("setting", SETTINGS)
def test_environments_are_given_back(setting: Setting) -> None:
    """A computation has the default environment, and the thread its own again, errors or not."""
    with changed(setting):
        with standard_environment():
            assert read() == STANDARD
            with standard_environment():
                assert read() == STANDARD
            assert read() == STANDARD
        assert read() == setting
        with pytest.raises(KeyError), standard_environment():
            raise KeyError
        assert read() == setting


@pytest.mark.parametrize("setting", STRANGE)
def test_changes_during_a_computation_are_refused(setting: Setting) -> None:
    """What was computed in another environment is not returned."""
    with pytest.raises(UnsuitableEnvironment, match="while Moot computed"), standard_environment():
        change(setting)
    assert read() == STANDARD


@pytest.mark.parametrize("setting", STRANGE)
def test_imports_are_refused_where_literals_are_misread(setting: Setting) -> None:
    """The packages that have numbers in them are imported where Python rounds to nearest only."""
    with changed(setting):
        assert (float("0.1"), float("0.7")) == (0.1, 0.7) or not rounds_to_nearest()
        if setting.rounding:
            with pytest.raises(ImportError, match="does not round to nearest"):
                require_rounding()
        else:
            require_rounding()
