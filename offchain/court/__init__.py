"""The record of a court: what was called on a referee, as frames of a film, for pages and files."""
