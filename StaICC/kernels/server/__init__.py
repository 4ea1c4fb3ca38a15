"""Kernels that send their prompts to a server."""
