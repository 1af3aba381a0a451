"""Pages for a browser: one HTML file each, and the server of those that are told what is new."""
