"""The figures of results, one file for each figure."""
