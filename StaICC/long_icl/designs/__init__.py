"""The designs of the experiments: which conditions each has."""
