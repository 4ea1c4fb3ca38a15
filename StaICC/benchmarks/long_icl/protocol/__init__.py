"""LongICL's protocol: which rows are selected, how prompts are written, and how replies are parsed."""
