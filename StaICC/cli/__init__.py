"""The command line: ``python -m StaICC`` and the console script ``staicc``.

One module for each subcommand, with ``EPILOG`` (examples), ``add_arguments(parser)`` and ``run(args) -> int``; each
calls public functions of the library and formats. Data goes to stdout, talk to stderr. Only the module of the command
that is asked for is imported.

Exit status: 0 done; 1 the command's answer is no (a verification failed, a run is partial); 2 the command line, an
argument or a file was wrong; 3 data or an optional package is missing; 130 interrupted.

Completion: with ``argcomplete`` installed, ``eval "$(register-python-argcomplete staicc)"`` in the shell's start-up
file completes commands, options and names.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import shlex
import sys
import threading
from collections.abc import Sequence

from StaICC.cli.parser import Parser, complete
from StaICC.errors import DataError, MissingDependencyError, StaICCError
from StaICC.version import __version__

__all__ = ["main"]

_COMMANDS = {
    "run": "run a benchmark on a model and print its table",
    "report": "write saved results as one self-contained HTML page with figures",
    "compare": "compare saved results in pairs, query by query",
    "published": "print the papers' figures, or set them beside a saved result",
    "prompts": "write the prompts of a benchmark for another engine to answer",
    "score": "score answers that another engine gave to the prompts",
    "export": "write benchmarks as lm-evaluation-harness tasks, and results as tables",
    "verify": "check that a saved result was asked the prompts that this library asks",
    "data": "install, verify, list and find the frozen data",
    "store": "look into, export, merge and salvage a store of predictions",
    "baseline": "print what guessing would score, and how surprising an accuracy is",
    "cite": "print the BibTeX of the benchmark, its data sets and the methods",
}

_EPILOG = """\
Each command has its own help: python -m StaICC run --help

exit status:
  0    done
  1    the command's answer is no: a verification failed, a run is partial
  2    the command line, an argument or a file was wrong
  3    data or an optional package is missing
  130  interrupted

examples:
  python -m StaICC run normal --datasets mini
  python -m StaICC --version
"""

_INTERRUPTED = 130
_PATIENCE = 1.0
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_WRONG_FILE = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


def _parser(wanted: str | None) -> Parser:
    """Build the parser.

    Args:
        wanted: The command whose arguments are needed; ``None`` for those of all.
    """
    parser = Parser(
        prog="python -m StaICC",
        description="Standardised evaluation of in-context classification.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"StaICC {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in _COMMANDS.items():
        if wanted not in (None, name):
            commands.add_parser(name, help=text)
            continue
        module = importlib.import_module(f"StaICC.cli.{name}")
        command = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _wanted(arguments: Sequence[str]) -> str | None:
    """Find the command among the arguments: the first word that is no option."""
    first = next((word for word in arguments if not word.startswith("-")), "")
    return first if first in _COMMANDS else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; those of the process by default. The process then ends within a second after
            an interrupt, even if threads are still at a query.

    Returns:
        The exit status (see the module).
    """
    status = _status(list(sys.argv[1:] if argv is None else argv))
    if status == _INTERRUPTED and argv is None:
        last = threading.Timer(_PATIENCE, os._exit, [status])  # the interpreter waits for threads that are at a query
        last.daemon = True
        last.start()
    return status


def _status(argv: list[str]) -> int:
    """Run a command and turn what ends it into an exit status."""
    try:
        if "_ARGCOMPLETE" in os.environ:
            complete(_parser(None))
        args = _parser(_wanted(argv)).parse_args(argv)
        return int(args.run(args))
    except (DataError, MissingDependencyError) as error:
        print(f"staicc: {error}", file=sys.stderr)
        return 3
    except StaICCError as error:
        print(f"staicc: {error}", file=sys.stderr)
        return 3 if isinstance(error.__cause__, (DataError, MissingDependencyError)) else 2
    except KeyboardInterrupt as interrupt:
        print("; ".join(["staicc: interrupted", *map(str, interrupt.args)]), file=sys.stderr)
        if interrupt.args:
            print(f"  {shlex.join(['python', '-m', 'StaICC', *argv])}", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, such as `| head`
        sys.stderr.close()
        return 0
    except OSError as error:
        if not isinstance(error, _WRONG_FILE) and error.errno not in _FULL_DISK:
            raise
        print(f"staicc: {error.filename or 'writing'}: {error.strerror}", file=sys.stderr)
        return 2
