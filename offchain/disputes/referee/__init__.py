"""The referee as a player meets it: its port, the contract behind it, logs, terms and gas."""
