"""The search for a policy that beats an honest provider within a dispute, move by move."""
