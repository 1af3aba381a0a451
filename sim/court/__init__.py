"""The page of a court: as one file, and from a server on loopback that follows a chain."""
