"""The command line: `orat.commands` has what each command does, and nothing imports torch before one runs."""

from __future__ import annotations

import errno
import sys

from orat.cli import clean, data, demo, evaluate, methods, outliers, search, train, train_many
from orat.cli.flags import Parser
from orat.core.errors import InputError, TrainingError
from orat.core.registry import plugins


def main(argv: list[str] | None = None) -> int:
    """Runs one command; what the user can mend is one line on standard error and exit code 2."""
    goes_on = False
    try:
        arguments = parser().parse(sys.argv[1:] if argv is None else argv)
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
    """One line for the user, and the exit code."""
    sys.stderr.write(f"orat: {message}\n")
    return code


def disk_error(error: OSError) -> str:
    """What went wrong with a file, and what to do."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{where}{error.strerror}: what was saved before is whole; "
            "make room and give the same command again to go on"
        )
    return f"{where}{error.strerror or error}"


def parser() -> Parser:
    """The parser of all commands, in the order of the help."""
    top = Parser(prog="orat", description="Train classifiers that withstand wrong labels and attacked inputs.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in (train, train_many, search, evaluate, outliers, clean, methods, data, demo):
        command.add(commands)
    for point in plugins("orat.commands").values():
        point.load()(commands)
    return top
