"""Run files: the options of ``run`` in a TOML file."""
