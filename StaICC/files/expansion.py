"""How far a compressed file that anybody may have written can expand before it is refused."""

from __future__ import annotations

from StaICC.files.json_reading import MEGABYTE

MAX_EXPANSION = 500
"""Most bytes after decompression for each byte of the file. JSON logs expand 3 to 30 times."""
ALWAYS_ALLOWED_SIZE = 64 * MEGABYTE
"""Bytes after decompression that any file may have: a small file of equal contents expands further."""
