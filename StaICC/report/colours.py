"""The colours of pages with their figures, in both themes.

Each colour has a role. The roles have WCAG contrast on both themes (3 : 1 for markers, 4.5 : 1 for text).
"""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "surface": "#ffffff",
    "ink": "#1c2128",
    "soft": "#57606a",
    "grid": "#d8dee4",
    "mark": "#8a939d",
    "series-1": "#1f6fc4",
    "series-2": "#c4541a",
    "series-3": "#1a7f5a",
    "series-4": "#7a4fc9",
    "series-5": "#b8336a",
    "series-6": "#7a6a00",
}
"""Of the light theme, by role. Saved figures have them."""
