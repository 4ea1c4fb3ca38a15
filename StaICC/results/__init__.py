"""Results: what a run returns, saves, loads."""
