"""Command-line entry point: parses, sets logging, maps errors to exit codes."""

import argparse
import errno
import importlib
import logging
import os
import sys
import traceback
from importlib.metadata import version

from eddyline.errors import EddylineError

__all__ = ["main"]

COMMANDS = {
    "join": "join two streams over sliding windows",
    "explain": "show how a join is lowered to words and comparators",
    "generate": "write the papers' benchmark streams",
    "spark-join": "run a join as a Spark job, on tables or streams of files",
    "serve": "own a device, and let other processes join on it",
    "fpga-discovery": "lease devices for Spark's resource scheduling",
    "bench": "measure simulated gateware or the indexes, with tables and plots",
    "devices": "list where a join can run",
    "doctor": "check the tool chain",
}
EXIT_CODES = """\
exit codes: 0 done, 1 device, 2 query or usage, 3 environment, 4 data, 130 interrupted
"""
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="eddyline",
        description="Join unbounded streams over sliding windows, on any predicate and any device.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"eddyline {version('eddyline')}")
    commands = top.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"eddyline.cli.{name.replace('-', '_')}")
        command = commands.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=EXIT_CODES,
        )
        command.add_argument(
            "-v", "--verbose", action="count", default=0, help="say more; -vv shows tracebacks"
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return top


def main(argv: list[str] | None = None) -> int:
    _open_missing_streams()
    verbose = 0
    try:
        args = parser().parse_args(argv)
        verbose = args.verbose
        _set_logging(verbose)
        code = args.run(args)
        sys.stdout.flush()
        return code
    except EddylineError as error:
        _report(str(error), error, verbose)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        from eddyline.io.write import discard_stdout

        discard_stdout()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _internal(error, verbose)
        from eddyline.io.write import discard_stdout

        discard_stdout()
        _report("no space left to write to: free some or write elsewhere", error, verbose)
        return 3
    except MemoryError as error:
        _report(f"out of memory ({error}); use smaller windows", error, verbose)
        return 3
    except Exception as error:
        return _internal(error, verbose)


def _open_missing_streams() -> None:
    """Give a process that was started without stdout or stderr somewhere to write."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open until the end)


def _set_logging(verbose: int) -> None:
    levels = [logging.WARNING, logging.INFO, logging.DEBUG]
    logging.basicConfig(
        format="%(levelname).1s %(name)s: %(message)s", level=levels[min(verbose, 2)]
    )
    for library in ("numba", "sqlglot"):  # their debug output buries ours
        logging.getLogger(library).setLevel(logging.WARNING)


def _internal(error: Exception, verbose: int) -> int:
    reason = f"{type(error).__name__}: {error}"
    _report(f"internal error, please report it with the output of -vv ({reason})", error, verbose)
    return 1


def _report(message: str, error: BaseException, verbose: int) -> None:
    if verbose > 1:
        traceback.print_exception(error)
    print(f"eddyline: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
