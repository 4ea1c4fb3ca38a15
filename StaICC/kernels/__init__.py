"""Kernels: inference functions of ready-made models, and the protocol that they follow.

Nothing is imported here. Each module is imported when it is used, and only then imports the packages that it needs.
"""
