"""Markets of providers and what they cost: agents, draws, jobs that are really played, tables."""
