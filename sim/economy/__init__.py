"""The market as an economy: agents with money, their strategies, mechanisms, and prices of gas."""
