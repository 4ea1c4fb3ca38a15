"""Inference methods: calibrations, demonstration selection and instruction selection, run by name."""
