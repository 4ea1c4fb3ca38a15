"""The module names of StaICC 0.1.1, with its classes as calls of today's.

Kernels are in :mod:`StaICC.kernels`, methods in :mod:`StaICC.methods`.
"""
