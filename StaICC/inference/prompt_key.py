"""The key of a prediction: a prompt with its label space.

Two queries with equal keys are predicted once. The prediction store, the runner, the recheck of stored predictions,
forecasts and features of methods all use this key.
"""

from __future__ import annotations

from StaICC.prompting.prompt_writer import Prompt

PromptKey = tuple[Prompt, tuple[str, ...]]
"""A prompt (for the noisy channel, one text for each label) and the label names that its prediction is about."""
