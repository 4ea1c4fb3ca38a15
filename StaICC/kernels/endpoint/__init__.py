"""Models behind an OpenAI-compatible server (extra ``endpoint``)."""
