"""The tasks of this library, one file for each family, with the benchmarks that run them."""
