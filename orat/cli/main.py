"""The command line: finds the command, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import io
import sys
import warnings
from argparse import Namespace

from orat import __version__
from orat.cli import data, demo, evaluate, labels, predict, search, train
from orat.cli import list as listing
from orat.cli.flags import Parser
from orat.cli.renamed import check_values, renamed
from orat.core.errors import InputError, TrainingError
from orat.core.registry import plugins

COMMANDS = (train, search, evaluate, predict, data, labels, listing, demo)  # in the order of the help


def main(words: list[str] | None = None) -> int:
    """Runs one command: exit code 0, 2 for an input error, 1 for a training or images that fail, 130 after Ctrl-C."""
    goes_on = False
    warnings.filterwarnings("ignore", module="PIL")  # a broken image is one line of ours
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names of files that are not UTF-8
    try:
        arguments = parse(renamed(sys.argv[1:] if words is None else words))
        goes_on = arguments.goes_on
        return arguments.command(arguments)
    except InputError as error:
        return fail(str(error), 2)
    except TrainingError as error:
        return fail(str(error), 1)
    except OSError as error:
        return fail(disk_error(error), 2)
    except KeyboardInterrupt:
        return fail("stopped; the same command goes on from there" if goes_on else "stopped", 130)


def fail(message: str, code: int) -> int:
    """Prints one line on standard error, and returns the exit code."""
    sys.stderr.write(f"orat: {message}\n")
    return code


def disk_error(error: OSError) -> str:
    """The message for a file that cannot be read or written."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{where}{error.strerror}: checkpoints saved before are intact; "
            "make room and give the same command again to go on"
        )
    return f"{where}{error.strerror or error}"


def parse(words: list[str]) -> Namespace:
    """The arguments of a command line; a plug-in is imported only for its own command."""
    top = Parser(prog="orat", description="Train classifiers that withstand wrong labels and attacked inputs.")
    top.add_argument("--version", action="version", version=f"orat {__version__}", help="print the version")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    for name, point in plugins("orat.commands").items():
        if words[:1] == [name]:
            point.load()(commands)
        else:
            commands.add_parser(name, help=f"commands of the plug-in {point.module.partition('.')[0]}")
    arguments = top.parse(words)
    check_values(arguments)
    return arguments
