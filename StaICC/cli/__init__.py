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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from StaICC.argument_syntax import command_line_syntax
from StaICC.cli.interrupts import EndingSignals
from StaICC.cli.terminal import drop_unwritten, escape_streams, safe_streams
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
_EXIT_SECONDS = 1.0
"""How long threads of an interrupted command may still run before the process exits."""

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""Errors of writing that the user can mend, although they name no file."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; by default those of the process, which then exits within a second after an
            interrupt, even if threads are still running.

    Returns:
        The exit status (see the module).
    """
    if argv is not None:
        with safe_streams(), command_line_syntax():
            return _exit_status(list(argv), EndingSignals())
    escape_streams()  # until the process exits, so that a last traceback is escaped too
    signals = EndingSignals()
    signals.listen()
    with safe_streams(), command_line_syntax():
        status = _exit_status(sys.argv[1:], signals)
    if signals.ended:
        _exit_soon(status)
    return status


def script() -> int:
    """Run the console script, which finds modules in the current folder, as ``python -m StaICC`` does."""
    has_safe_path = sys.version_info >= (3, 11) and sys.flags.safe_path
    if not has_safe_path:
        sys.path.append("")  # last, so that it replaces no installed module
    return main()


def _exit_soon(status: int) -> None:
    """End the process after a moment: the interpreter would wait for running threads."""
    timer = threading.Timer(_EXIT_SECONDS, os._exit, [status])
    timer.daemon = True
    timer.start()


def _exit_status(argv: list[str], signals: EndingSignals) -> int:
    """Run a command, print what ends it early, and return its exit status.

    Args:
        argv: The words of the command.
        signals: Knows which signal interrupted it, and notes that it has ended.
    """
    try:
        return _run_command(argv)
    except (DataError, MissingDependencyError) as error:
        print(f"staicc: {error}", file=sys.stderr)
        return 3
    except StaICCError as error:
        print(f"staicc: {one_line(str(error))}", file=sys.stderr)
        something_is_missing = isinstance(error.__cause__, (DataError, MissingDependencyError))
        return 3 if something_is_missing else 2
    except KeyboardInterrupt as interrupt:
        _explain_interrupt(interrupt, argv, signals)
        signals.ended = True
        return signals.exit_status
    except BrokenPipeError:  # the reader closed the pipe, such as `| head`
        drop_unwritten(sys.stdout)
        return 0
    except OSError as error:
        user_can_mend_it = error.filename is not None or error.errno in _FULL_DISK
        if not user_can_mend_it:
            raise
        print(f"staicc: {_message_about_file(error)}", file=sys.stderr)
        drop_unwritten(sys.stdout)
        return 2


def _explain_interrupt(interrupt: KeyboardInterrupt, argv: Sequence[str], signals: EndingSignals) -> None:
    """Print that the command was interrupted, with the command that continues if something was kept.

    Args:
        interrupt: The interrupt. Commands add what was kept, and how to continue, as its arguments.
        argv: The words of the command.
        signals: The signal that ended it.
    """
    explanations = [str(argument) for argument in interrupt.args]
    with contextlib.suppress(OSError):  # after SIGHUP, the terminal is closed
        print("; ".join([f"staicc: {signals}", *explanations]), file=sys.stderr)
        if explanations:
            print(f"  {shlex.join(['python', '-m', 'StaICC', *argv])}", file=sys.stderr)
    drop_unwritten(sys.stdout)
    drop_unwritten(sys.stderr)


def _message_about_file(error: OSError) -> str:
    """Return which file cannot be read or written, and why."""
    is_named = isinstance(error.filename, (str, bytes, os.PathLike))
    if isinstance(error, FileNotFoundError) and is_named:
        from StaICC.files.missing import message_about_missing_file

        path = Path(os.fsdecode(error.filename))
        return one_line(message_about_missing_file(path))
    return f"{_file_of(error)}: {error.strerror}"


def _file_of(error: OSError) -> str:
    """Return the file that an error is about, or what was being done."""
    if not isinstance(error.filename, (str, bytes, os.PathLike)):
        return "writing"
    return one_line(os.fsdecode(error.filename)) or "writing"


def _run_command(argv: list[str]) -> int:
    """Run a command, print what it returns, and return its exit status."""
    from StaICC.cli.option_rules import refuse_ignored_options
    from StaICC.cli.output import Printed, print_fitted, print_json
    from StaICC.cli.parser import complete

    if "_ARGCOMPLETE" in os.environ:
        complete(_parser(None))
    argv, command = _with_known_command(argv)
    if command == "run":
        from StaICC.cli.run_files.command import names_run_file, run_of_file

        if names_run_file(argv):
            words_after_command = argv[argv.index(command) + 1 :]
            return run_of_file(words_after_command, lambda: _parser(command).command(command))

    args = _parser(command).parse_args(argv)
    refuse_ignored_options(args)
    returned: int | Printed | None = args.run(args)
    status = 0
    if isinstance(returned, Printed):
        if args.json:
            print_json(returned.document)
        else:
            print_fitted(returned.blocks)
        status = returned.status
    elif returned is not None:
        status = returned
    sys.stdout.flush()
    return status


def _with_known_command(argv: Sequence[str]) -> tuple[list[str], str]:
    """Return the arguments and the name of the command, the first word that is no option; empty if there is none.

    The name is in lower case, and so is the word in the arguments if it is the name of a command.
    """
    words = list(argv)
    for position, word in enumerate(words):
        is_option = word.startswith("-")
        if is_option:
            continue
        command = word.lower()
        if command in _COMMANDS:
            words[position] = command
        return words, command
    return words, ""


def _parser(command: str | None) -> Parser:
    """Return the parser.

    Args:
        command: The command whose arguments are needed; ``None`` for all commands, another text for none.
    """
    from StaICC.cli.parser import Parser, add_command

    parser = Parser(
        prog="python -m StaICC",
        description="Standardised evaluation of in-context classification.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(json=False)
    parser.add_argument("--version", action="version", version=f"StaICC {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in _COMMANDS.items():
        is_needed = command is None or command == name
        if not is_needed:  # its name is known, and its module is not imported
            commands.add_parser(name, help=summary)
            continue
        module = importlib.import_module(f"StaICC.cli.{module_name}")
        add_arguments = getattr(module, f"add_{name}")
        # A command that only has actions has no function of its own; its description is that of ``add_NAME``.
        run = getattr(module, name, add_arguments)
        add_arguments(add_command(commands, name, run, summary))
        parser.command(name).make_complete = partial(_parser, None)
    return parser
