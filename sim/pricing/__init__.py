"""What a job should cost: its work, its disputes, and terms at which no known attack pays."""
