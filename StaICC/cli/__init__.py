"""The command line, ``python -m StaICC`` or the console script ``staicc``.

Each command has its own help: python -m StaICC run --help

exit status:
  0    done
  1    a result is contradicted, or a run is partial
  2    the command line, an argument or a file is invalid
  3    data or an optional package is missing, or a result is unchecked
  4    a result was printed, but not saved where it should be
  130  interrupted; 143 or 129 after SIGTERM or SIGHUP

examples:
  python -m StaICC run normal --datasets mini
  python -m StaICC --version
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import shlex
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from StaICC.cli.interrupts import EndingSignals
from StaICC.cli.terminal import escape_streams, safe_streams
from StaICC.errors import DataError, MissingDependencyError, StaICCError
from StaICC.safe_text import one_line
from StaICC.version import __version__

if TYPE_CHECKING:  # slow imports are made in functions that run where Ctrl-C is handled
    from StaICC.cli.output import Printed
    from StaICC.cli.parser import Parser

__all__ = ["main", "script"]

# Module and summary of each command. The module has ``add_NAME(parser)`` and ``NAME(args)``, which returns what is
# printed, the exit status, or None for 0; its docstring after the first line is the text of --help. A command with
# actions has a function for each of them, and the docstring of ``add_NAME``. A command calls public functions of the
# library and prints: data to stdout, messages to stderr. Only the module of the chosen command is imported.
_COMMANDS = {
    "run": ("run", "run a benchmark on a model and print its table"),
    "race": ("race", "evaluate two models until the better one is known, on as few test rows as needed"),
    "report": ("report", "write saved results as one self-contained HTML page with figures"),
    "leaderboard": ("leaderboard", "write a static site of all saved results in a folder, each of them verified"),
    "compare": ("compare", "compare saved results with paired significance tests"),
    "rank": ("compare", "rank saved results, with intervals of ranks"),
    "components": ("generalisation", "print what an accuracy owes to rows, demonstrations and templates"),
    "plan": ("generalisation", "plan how many rows, draws, templates and data sets a precision or difference needs"),
    "published": ("published", "print the figures of the papers, or compare a saved result with them"),
    "prompts": ("exchange", "write the prompts of a benchmark for another engine"),
    "score": ("exchange", "score the predictions of another engine"),
    "export": ("export", "write benchmarks as lm-evaluation-harness tasks, and results as tables"),
    "verify": ("verify", "recompute saved results from their records, and their prompts from the data"),
    "data": ("data", "install, verify, list and find the frozen data"),
    "models": ("show", "list the kinds of models with their options"),
    "show": ("show", "list kernels, methods, data sets, benchmarks and metrics, including plug-ins"),
    "methods": ("show", "list inference methods with their papers and options"),
    "store": ("store", "inspect, export and merge prediction stores"),
    "baseline": ("baseline", "print random baselines, and the p-value of an accuracy"),
    "cite": ("cite", "print the BibTeX of the benchmark, its data sets and the methods"),
}
_EPILOG = (__doc__ or "").partition("\n\n")[2]
_PATIENCE = 1.0
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def _parser(wanted: str | None) -> Parser:
    """Return the parser.

    Args:
        wanted: The command whose arguments are needed; ``None`` for all commands, another text for none.
    """
    from StaICC.cli.parser import Parser, add_command

    about, form = "Standardised evaluation of in-context classification.", argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m StaICC", description=about, epilog=_EPILOG, formatter_class=form)
    parser.set_defaults(json=False)
    parser.add_argument("--version", action="version", version=f"StaICC {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in _COMMANDS.items():
        if wanted not in (None, name):
            commands.add_parser(name, help=text)
            continue
        home = importlib.import_module(f"StaICC.cli.{module}")
        add = getattr(home, f"add_{name}")
        add(add_command(commands, name, getattr(home, name, add), text))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; by default those of the process, which then exits within a second after an
            interrupt, even if threads are still running.

    Returns:
        The exit status (see the module).
    """
    if argv is not None:
        with safe_streams():
            return _status(list(argv), EndingSignals())
    escape_streams()  # until the process exits, so that a last traceback is escaped too
    signals = EndingSignals()
    signals.listen()
    with safe_streams():
        status = _status(sys.argv[1:], signals)
    if signals.ended:
        last = threading.Timer(_PATIENCE, os._exit, [status])  # the interpreter would wait for running threads
        last.daemon = True
        last.start()
    return status


def script() -> int:
    """Run the console script, which finds modules in the current folder, as ``python -m StaICC`` does."""
    if sys.version_info < (3, 11) or not sys.flags.safe_path:
        sys.path.append("")  # last, so that it replaces no installed module
    return main()


def _status(argv: list[str], signals: EndingSignals) -> int:
    """Run a command and return its exit status."""
    try:
        return _run_command(argv)
    except (DataError, MissingDependencyError) as error:
        print(f"staicc: {error}", file=sys.stderr)
        return 3
    except StaICCError as error:
        print(f"staicc: {one_line(str(error))}", file=sys.stderr)
        return 3 if isinstance(error.__cause__, (DataError, MissingDependencyError)) else 2
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):  # after SIGHUP, the terminal is closed
            print("; ".join([f"staicc: {signals}", *map(str, interrupt.args)]), file=sys.stderr)
            if interrupt.args:
                print(f"  {shlex.join(['python', '-m', 'StaICC', *argv])}", file=sys.stderr)
        _drop_unwritten(sys.stdout)
        _drop_unwritten(sys.stderr)
        signals.ended = True
        return signals.exit_status
    except BrokenPipeError:  # the reader closed the pipe, such as `| head`
        _drop_unwritten(sys.stdout)
        return 0
    except OSError as error:
        if error.filename is None and error.errno not in _FULL_DISK:
            raise
        name = one_line(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes, os.PathLike)) else ""
        print(f"staicc: {name or 'writing'}: {error.strerror}", file=sys.stderr)
        _drop_unwritten(sys.stdout)
        return 2


def _run_command(argv: list[str]) -> int:
    """Run a command, print what it returns, and return its exit status."""
    from StaICC.cli.output import Printed, print_fitted, print_json
    from StaICC.cli.parser import complete

    if "_ARGCOMPLETE" in os.environ:
        complete(_parser(None))
    place = next((number for number, word in enumerate(argv) if not word.startswith("-")), None)
    wanted = "" if place is None else argv[place].lower()
    if place is not None and wanted in _COMMANDS:
        argv[place] = wanted
    args = _parser(wanted).parse_args(argv)
    done: int | Printed | None = args.run(args)
    if isinstance(done, Printed) and args.json:
        print_json(done.document)
    elif isinstance(done, Printed):
        print_fitted(done.blocks)
    print(end="", flush=True)
    if isinstance(done, Printed):
        return done.status
    return done or 0


def _drop_unwritten(stream: TextIO) -> None:
    """Drop what a stream cannot take: Python would try again at exit, and change the exit status to 120."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
