# PYTHON_ARGCOMPLETE_OK (argcomplete completes `python -m StaICC` where it finds this)
"""``python -m StaICC``: the command line."""

from __future__ import annotations

import sys

try:
    from StaICC.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
