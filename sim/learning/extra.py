"""The packages of the extra `learn`, and what is said where one is missing."""

from moot.offchain.errors import UsageError


def refuse(lacking: ImportError) -> UsageError:
    """Return the error of whoever needs a package that is not installed."""
    name = (lacking.name or "a package").partition(".")[0]
    return UsageError(f"{name} is not installed; pip install 'moot[learn]' installs it")
