"""The record of a referee: what was called on it, as frames of a film, for pages and files."""
