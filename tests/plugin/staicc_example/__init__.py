"""A plug-in for StaICC: docs/extending.md explains it."""
