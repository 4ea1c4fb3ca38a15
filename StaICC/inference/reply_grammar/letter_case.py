"""Where a text occurs in another one without regard to case, in positions of the text itself.

Case folding can make a text longer: ``"ß"`` becomes ``"ss"``. So a position in the folded text is none of the original.
"""

from __future__ import annotations


def span_without_case(text: str, part: str) -> tuple[int, int] | None:
    """Return where a part first occurs in a text without regard to case: its begin and its end (exclusive).

    Args:
        text: The text.
        part: What is searched for; not empty.

    Returns:
        The positions in ``text``; ``None`` if the part does not occur.

    Example:
        >>> span_without_case("Weiß. LABELS: late", "labels:")
        (6, 13)
    """
    position_by_folded_position = {}  # where each character of the text begins in the folded text
    folded_length = 0
    for position, character in enumerate(text):
        position_by_folded_position[folded_length] = position
        folded_length += len(character.casefold())
    position_by_folded_position[folded_length] = len(text)

    folded_text = text.casefold()
    folded_part = part.casefold()
    folded_begin = folded_text.find(folded_part)
    while folded_begin >= 0:
        begin = position_by_folded_position.get(folded_begin)
        end = position_by_folded_position.get(folded_begin + len(folded_part))
        # The part may occur in the folded text from the middle of a character: "s:" in "\u00df:", which becomes "ss:".
        if begin is not None and end is not None:
            return begin, end
        folded_begin = folded_text.find(folded_part, folded_begin + 1)
    return None
