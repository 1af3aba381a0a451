"""The viewer of a referee's record: one page, in a file, or from a server that follows a chain."""
