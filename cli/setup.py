# SPDX-License-Identifier: Apache-2.0
"""What every process does first: read the configuration, set up logging, and turn mistakes into one clear line."""

import argparse
import contextlib
import faulthandler
import logging as standard_logging
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors
from tonnage.rpc import option_errors

PROJECT = "tonnage"

#: Exit status for a wrong command line, as argparse has it.
USAGE = 2

#: Errors that are not of the program but of what is around it.
OF_OTHERS = (errors.TonnageError, cfg.Error, OSError)

#: Libraries that would tell of each message, connection or plugin.
_LOG_LEVELS = (
    "alembic=WARN",
    "amqp=WARN",
    # Tells more of an address the more it is asked for, and addresses hold secrets.
    "apprise=WARN",
    "kombu=WARN",
    # Warns that no host is named of an address that has none, kombu+memory://.
    "kombu.connection=ERROR",
    # Takes many calls at the same time for a leak.
    "oslo_messaging._drivers.amqpdriver=ERROR",
    # Logs a traceback of what it then raises.
    "oslo_db.sqlalchemy.exc_filters=ERROR",
    "oslo.messaging=WARN",
    # What notifications are logged as by oslo.messaging's driver that logs them.
    "oslo.messaging.notification=INFO",
    "keystoneauth=WARN",
    "keystonemiddleware=WARN",
    "oslo_messaging=WARN",
    "sqlalchemy=WARN",
    # Warns of a plugin that is not there before whoever asked for it can say so better.
    "stevedore=ERROR",
    "urllib3=WARN",
)


class UsageError(errors.TonnageError):
    """The command line is wrong."""


def configure(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    prog: str,
    register: Iterable[Callable[[cfg.ConfigOpts], object]] = (),
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Read the configuration files and the command line into ``conf`` and begin to log.

    ``register`` are functions that register the options the process needs, ``defaults`` values of ``[DEFAULT]`` that
    differ for it. Without ``--config-file`` the files are searched where oslo.config does, in ``/etc/tonnage`` for one.
    It may also stand behind a command.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for the first value that does not fit its option.
    """
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        # Where a native library crashes, nothing else would tell that it did, and what was asked of it.
        faulthandler.enable(sys.__stderr__.fileno())
    logging.set_defaults(default_log_levels=list(_LOG_LEVELS))
    _register(conf, register, defaults)
    conf(_files_first(argv, prog), project=PROJECT, prog=prog, version=f"{prog} {tonnage.__version__}")
    _check_values(conf)
    if not (conf.log_file or conf.log_dir or conf.use_journal):
        # Standard output is for what a command was asked for.
        conf.set_default("use_stderr", True)
    logging.setup(conf, PROJECT, tonnage.__version__, fix_eventlet=False)
    standard_logging.captureWarnings(True)


def read_again(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    register: Iterable[Callable[[cfg.ConfigOpts], object]] = (),
    defaults: Mapping[str, Any] | None = None,
) -> cfg.ConfigOpts:
    """Return what the files that ``conf`` was read from say now; ``conf`` stays as it is.

    The other arguments are those that it was configured with. Raises
    :class:`~tonnage.capacity.errors.ConfigurationError` for the first value that does not fit its option, and
    ``oslo_config.cfg.Error`` for files that cannot be read.
    """
    fresh = cfg.ConfigOpts()
    _register(fresh, register, defaults)
    fresh(
        _files_first(argv, conf.prog),
        project=PROJECT,
        prog=conf.prog,
        # One that is gone is an error, and no reason to look for others or to go by the defaults.
        default_config_files=conf.default_config_files,
        default_config_dirs=conf.default_config_dirs,
    )
    _check_values(fresh)
    return fresh


@contextlib.contextmanager
def clean_exit(prog: str, status: int = 1) -> Iterator[None]:
    """End the process with one line on standard error and a status where something outside the program is wrong.

    The status is 2 for a wrong command line. Also usable as a decorator of ``main()``. Errors of the program itself
    come through.
    """
    with _output_sent(prog, status):
        try:
            yield
        except KeyboardInterrupt:
            sys.exit(130)
        except OF_OTHERS as error:
            if isinstance(error, BrokenPipeError) and _is_abandoned():
                raise
            hint = _unread(cfg.CONF, prog) if isinstance(error, errors.ConfigurationError) else ""
            _say(f"{prog}: {one_line(error)}{hint}")
            sys.exit(USAGE if isinstance(error, UsageError) else status)


@contextlib.contextmanager
def _output_sent(prog: str, status: int) -> Iterator[None]:
    """Send what was printed, however the process ends. Where nobody reads it, as before ``| head``, end quietly."""
    try:
        try:
            yield
        finally:
            _flush()
    except OSError as error:
        # What is left in the buffer would be tried once more at the very end.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        _say(f"{prog}: {one_line(error)}")
        sys.exit(status)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _is_abandoned() -> bool:
    """Tell whether standard output is a pipe that nobody reads any more."""
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _say(line: str) -> None:
    """Print on standard error, which may be a terminal that has been closed."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _unread(conf: cfg.ConfigOpts, prog: str) -> str:
    """Return what to say of an option where no configuration file was read at all."""
    try:
        read = bool(conf.config_file or conf.config_dir)
    except cfg.NoSuchOptError:  # it did not come to reading any
        return ""
    if read:
        return ""
    names = f"{PROJECT}.conf" if prog == PROJECT else f"{PROJECT}.conf or {prog}.conf"
    return (
        f"; no configuration file was read: there is no {names} in ~/.{PROJECT}, ~, /etc/{PROJECT} or /etc, and "
        "--config-file names none"
    )


def one_line(error: BaseException) -> str:
    """Return what is wrong in one line, whatever the text came from."""
    return " ".join(str(error).split()) or type(error).__name__


def _files_first(arguments: Sequence[str], prog: str) -> list[str]:
    """Let configuration files also be named behind a command, where oslo.config does not look for them."""
    parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
    options = ("--config-file", "--config-dir")
    for option in options:
        parser.add_argument(option, action="append", default=[], metavar="PATH")
    known, others = parser.parse_known_args(arguments)
    named = [known.config_file, known.config_dir]
    return [
        *(part for option, values in zip(options, named, strict=True) for value in values for part in (option, value)),
        *others,
    ]


def _register(
    conf: cfg.ConfigOpts,
    register: Iterable[Callable[[cfg.ConfigOpts], object]],
    defaults: Mapping[str, Any] | None,
) -> None:
    logging.register_options(conf)
    for function in register:
        function(conf)
    for name, value in (defaults or {}).items():
        conf.set_default(name, value)


def _check_values(conf: cfg.ConfigOpts) -> None:
    """Read each value once: oslo.config looks at a value only when somebody asks for it."""
    sections: dict[str, Any] = {group: conf[group] for group in conf.list_all_sections() if group in conf}
    for section, values in {"DEFAULT": conf, **sections}.items():
        for name in values:
            try:
                values[name]
            except (cfg.Error, ValueError) as error:
                group = None if section == "DEFAULT" else section
                raise errors.ConfigurationError(option_errors.complaint(conf, name, group, error)) from None
