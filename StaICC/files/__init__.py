"""Files that are read with bounds, written completely or not at all."""
