"""Learning agents: markets that ask step by step, policies as strategies, and their training."""
