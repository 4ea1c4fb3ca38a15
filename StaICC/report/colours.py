"""The colours of pages with their figures, in both themes.

Each colour has a role. The roles have WCAG contrast on both themes (3 : 1 for markers, 4.5 : 1 for text). Figures have
the light ones as attributes, so that every program draws them; a page replaces them in its dark theme.
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
    "panel": "#f6f8fa",
    "warn": "#8a4600",
    "warn-panel": "#fff4e5",
}
"""Of the light theme, by role."""
DARK: Mapping[str, str] = {
    "surface": "#16181d",
    "ink": "#e9ecf1",
    "soft": "#a3adb9",
    "grid": "#3a414c",
    "mark": "#7c8692",
    "series-1": "#5ba3f0",
    "series-2": "#f08a4b",
    "series-3": "#3fbf8f",
    "series-4": "#b08cf5",
    "series-5": "#ef6f9f",
    "series-6": "#cdb83a",
    "panel": "#1f232a",
    "warn": "#ffb86b",
    "warn-panel": "#33281a",
}
"""Of the dark theme, by role."""


def theme_style() -> str:
    """Return the style sheet of the themes: a variable for each role, which the other style sheets use."""
    light = f":root{{color-scheme:light;{_variables(LIGHT)}}}"
    dark = f":root{{color-scheme:dark;{_variables(DARK)}}}"
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n{_chart_style()}"


def _variables(colours: Mapping[str, str]) -> str:
    """Return the declarations of the variables of a theme."""
    return "".join(f"--{role}:{colour};" for role, colour in colours.items())


def _chart_style() -> str:
    """Return the rules that draw figures in the colours of the theme, instead of those of their attributes."""
    rules = []
    for role in LIGHT:
        rules.append(f".chart .fill-{role}{{fill:var(--{role})}}.chart .stroke-{role}{{stroke:var(--{role})}}")
    return "\n".join(rules)
