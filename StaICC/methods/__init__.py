"""Inference methods, run by name on any kernel."""
