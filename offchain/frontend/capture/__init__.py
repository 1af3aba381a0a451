"""Capture: from a recipe to a program that does in its first steps what eager torch does.

`capture` is the way in. `draft` makes the program, `rehearsal` compares it with torch, `eager` and
`noise` are the runs that it compares, and `keeping` leaves the model as it was found.
"""

from moot.offchain.frontend.capture.captured import Captured, capture, capture_once

__all__ = ["Captured", "capture", "capture_once"]
