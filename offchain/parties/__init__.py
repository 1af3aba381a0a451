"""The parties of a job as programs of their own: clients, providers, and a net to try them on."""
