"""The executors of programs: a readable one by the definition, and a fast one with equal bits."""
