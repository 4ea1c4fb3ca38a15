"""LongICL's data: cards, readers of the published files, and where they come from."""
