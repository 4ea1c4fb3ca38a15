"""Inference functions ready to use: an embedded model, torch kernels, endpoints, calibrations.

Nothing is imported here; each module is imported when it is used, and only then asks for the packages that it needs.
"""
