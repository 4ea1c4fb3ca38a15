"""``python -m StaICC models``: list the kinds of models with their options.

A model is named as KIND:NAME;option=value;... in quotes, or with --model-option option=value for each option.

examples:
  python -m StaICC models
  python -m StaICC run normal --model 'ppm;order=8' --datasets mini
  python -m StaICC run normal --model ppm --model-option order=8 --datasets mini
"""

from __future__ import annotations

import argparse

from StaICC.cli.show import run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a list")
    parser.set_defaults(kind="kernels")
