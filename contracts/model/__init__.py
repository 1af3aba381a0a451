"""The executable specification of the referee: plain dataclasses and one function a call."""
