"""From ATen to operators: every overload that a program may contain has one rule (see `table`).

A rule takes lazy strided views (`views`) and emits operators (`builder`). Rearranging a view costs
no operator; only what strides cannot express becomes a move. Each family of rules has a file.
"""
