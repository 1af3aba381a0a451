"""The rules of a market, each kind behind one protocol and each rule in one file."""
