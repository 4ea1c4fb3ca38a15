"""Methods that change the prompt: its instruction, its demonstrations or their order."""
