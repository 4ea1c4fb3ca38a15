"""Results: dictionaries with the documented keys that know their signature, and go to and from JSON."""
