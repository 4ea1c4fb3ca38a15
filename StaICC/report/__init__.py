"""Reports: saved results as one self-contained page, each of its figures as a function for a notebook."""
