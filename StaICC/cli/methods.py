"""``python -m StaICC methods``: list inference methods, as ``show methods``.

examples:
  python -m StaICC methods
  python -m StaICC methods --json
"""

from __future__ import annotations

import argparse

from StaICC.cli.show import run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a list")
    parser.set_defaults(kind="methods")
