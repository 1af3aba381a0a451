"""The names of the example programs and of their sizes, in a module that imports nothing slow."""

DIGIT_NAMES = ("mlp", "cnn", "resnet", "mobilenet", "vit", "whisper")
"""Examples that learn from handwritten digits."""

TEXT_NAMES = ("gpt2", "llama", "bert", "mixtral", "t5")
"""Examples that learn from text."""

NAMES = (*DIGIT_NAMES, *TEXT_NAMES)
SIZES = ("tiny", "small", "full")

FOLDER = "hf:"
"""What the name of a program begins with that is a checkpoint folder."""


def is_file(program: str) -> bool:
    """Return whether a program is named by a file of the user's, whose code makes it."""
    return program not in NAMES and not program.startswith(FOLDER)
