"""The data store: programs, states, batches and whatever else has a root, shared with strangers."""
