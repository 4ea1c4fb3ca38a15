"""From prompts to predictions."""
