"""The report on a results folder: one HTML file with a summary, plots and games."""
