"""The market as an economy: agents with money and strategies, mechanisms, and a chain with prices."""
