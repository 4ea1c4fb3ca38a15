"""From frozen tables to prompts: stable random, split, demonstration sampler, prompt writer, pseudo-queries."""
