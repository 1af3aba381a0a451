"""Children hear and say lines of JSON, and end with their input or are killed."""

import json
import signal
import subprocess

from moot.offchain.children import end_by_input, get_last_words, start, tell

LISTENER = ("json.tool", "--json-lines", "--compact")
"""A module that says again what it hears, once it has heard all."""
DEAF = ("http.server", "0", "--bind", "127.0.0.1")
"""One that does not end with its input."""


def test_a_child_hears_lines_and_ends_with_its_input() -> None:
    """What is told arrives, line by line; afterwards it is over."""
    process = start(*LISTENER)
    assert process.stdout is not None
    told = [{"number": 1}, ["\N{SNOWMAN}", None]]
    for value in told:
        tell(process, value)
    end_by_input(process, 60)
    assert process.returncode == 0
    with process.stdout as lines:
        assert [json.loads(line) for line in lines] == told


def test_a_child_that_goes_on_is_killed() -> None:
    """Who does not end with its input is killed once the time is over."""
    process = start(*DEAF)
    assert process.stdout is not None
    end_by_input(process, 0.1)
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()


def test_what_is_told_to_the_dead_is_lost() -> None:
    """A process that has ended is no error for whoever tells it something."""
    process = start("json.tool", "--no-such-option", stderr=subprocess.DEVNULL)
    assert process.wait() != 0
    tell(process, 1)
    end_by_input(process, 1)
    assert process.stdout is not None
    process.stdout.close()


def test_last_words_say_something() -> None:
    """They are the last line that is not blank, or what is said of silence."""
    assert get_last_words("a trace\n  the reason \n \n", "nothing") == "the reason"
    assert get_last_words(" \n\n", "nothing") == "nothing"
