"""The live page of a market: it runs in a process of its own, and sliders start it again."""
