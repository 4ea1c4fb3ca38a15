"""Evaluation of the user's inference function: its contract, the runner, progress."""
