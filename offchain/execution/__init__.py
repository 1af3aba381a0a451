"""Running programs: by the letter of their definition, and fast, to the same bits."""
