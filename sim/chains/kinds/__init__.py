"""The kinds of chains: each is a file with its formula of fees, and a row in `table.py`."""
