"""The message about a file that is not there: it names files that the user may mean."""

from __future__ import annotations

import difflib
from pathlib import Path

_MOST_NAMES = 5
"""Files of the folder that a message names."""


def message_about_missing_file(file: Path) -> str:
    """Return the message about a file that is not there.

    It names the file of the folder with the nearest name. Without one, it names the files with the same suffix.

    Args:
        file: The path.

    Example:
        >>> message_about_missing_file(Path("no folder/result.json"))
        'there is no file no folder/result.json, since there is no folder no folder'
    """
    message = f"there is no file {file}"
    if not file.parent.is_dir():
        return f"{message}, since there is no folder {file.parent}"
    neighbours = sorted(neighbour.name for neighbour in file.parent.iterdir() if not neighbour.name.startswith("."))
    nearest = difflib.get_close_matches(file.name, neighbours, n=1)
    if nearest:
        return f"{message}. Did you mean {nearest[0]!r}?"
    same_suffix = [name for name in neighbours if Path(name).suffix == file.suffix]
    if not file.suffix or not same_suffix:
        return message
    names = ", ".join(same_suffix[:_MOST_NAMES])
    further_count = len(same_suffix) - _MOST_NAMES
    if further_count > 0:
        names += f" and {further_count} others"
    return f"{message}. The {file.suffix} files in this folder are: {names}"
