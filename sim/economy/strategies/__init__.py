"""The strategies of agents, one in each file."""
