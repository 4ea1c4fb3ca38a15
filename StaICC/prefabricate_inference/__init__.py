"""The module names of StaICC 0.1.1; nothing is defined here.

Kernels are in :mod:`StaICC.kernels`, methods in :mod:`StaICC.methods`.
"""
