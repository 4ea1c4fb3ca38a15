"""Kernels: inference functions of ready-made models.

Nothing is imported here. Each module is imported when it is used, and only then imports the packages that it needs.
"""
