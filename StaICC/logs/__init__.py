"""Logs of other harnesses: the score of each sample, whatever the task."""
