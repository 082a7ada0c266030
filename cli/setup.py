# SPDX-License-Identifier: Apache-2.0
"""Set-up of every process: reading the configuration, logging, and error messages of one line."""

import contextlib
import faulthandler
import logging as standard_logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import _options as log_options
from oslo_log import formatters
from oslo_log import log as logging

import tonnage
from tonnage import enabled_extensions, installation, log_records
from tonnage.capacity import errors, number_bounds
from tonnage.cli import config_files, output
from tonnage.rpc import option_errors

PROJECT = "tonnage"

#: Exit status for a wrong command line, the same as in argparse.
USAGE = 2

#: The configuration of ``make run``, in a clone of the repository.
_OF_CLONE = "etc/tonnage-standalone.conf"

#: Errors in the environment of the program, as opposed to bugs.
EXPECTED_ERRORS = (errors.TonnageError, cfg.Error, OSError)

#: Log levels of libraries that would otherwise log each message, connection or plug-in.
_LOG_LEVELS = (
    "alembic=WARN",
    "amqp=WARN",
    # Its more verbose levels log parts of addresses, which contain secrets.
    "apprise=WARN",
    "kombu=WARN",
    # Warns about a missing host in kombu+memory://, which has none.
    "kombu.connection=ERROR",
    # Warns about many concurrent calls, which it mistakes for a leak.
    "oslo_messaging._drivers.amqpdriver=ERROR",
    # Logs a traceback of each error that it raises.
    "oslo_db.sqlalchemy.exc_filters=ERROR",
    "oslo.messaging=WARN",
    # Logger of oslo.messaging's "log" driver for notifications.
    "oslo.messaging.notification=INFO",
    "keystoneauth=WARN",
    "keystonemiddleware=WARN",
    "oslo_messaging=WARN",
    "sqlalchemy=WARN",
    # Warns about a missing plug-in, for which the caller reports a better error.
    "stevedore=ERROR",
    # Logs parts of each malformed request.
    "tornado=WARN",
    "urllib3=WARN",
)


class _Formatter(formatters.ContextFormatter):
    """Formats lines as oslo.log does, without telling an error twice.

    oslo.log appends the error that is being handled to each warning. Most warnings have its message already.
    """

    def format(self, record: standard_logging.LogRecord) -> str:
        """Return the text of a record."""
        line, newline, more = super().format(record).partition("\n")
        summary: str = getattr(record, "error_summary", "")
        if summary.partition(": ")[2] in record.getMessage():
            line = line.removesuffix(f": {summary}")
        return line + newline + more


#: The answer of RabbitMQ to a fan-out while no receiver runs: the exchange goes with the last of them.
_NO_EXCHANGE = "NOT_FOUND - no exchange"


def _tells_news(record: standard_logging.LogRecord) -> bool:
    """Return whether a record of the library of the message bus is more than that no receiver of a message runs.

    The sender tells that, in one line, and sends again.
    """
    return _NO_EXCHANGE not in record.getMessage()


class UsageError(errors.TonnageError):
    """The command line is wrong."""


def configure(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    prog: str,
    register: Iterable[Callable[[cfg.ConfigOpts], object]] = (),
    defaults: Mapping[str, Any] | None = None,
    *,
    daemon: bool = True,
    with_extensions: bool = False,
) -> None:
    """Read the configuration files and the command line into ``conf``, and start logging.

    ``register`` has functions that register the options of the process. ``defaults`` has different default values of
    options in ``[DEFAULT]``. With ``with_extensions`` the process has the options of the enabled extensions, which are
    registered after the files have told which these are. The command line of a ``daemon`` has the options of its log;
    other programs take them from the files. Without ``--config-file`` the files are searched in oslo.config's standard
    folders, ``/etc/tonnage`` for example. ``--config-file`` is also accepted after a command.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for the first value that its option does not accept.
    """
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        # After a crash in a native library, only the fault handler shows the cause.
        faulthandler.enable(sys.__stderr__.fileno())
    logging.set_defaults(default_log_levels=list(_LOG_LEVELS))
    _register(conf, register, defaults)
    if not daemon:
        conf.unregister_opts(log_options.logging_cli_opts)
        conf.register_opts(log_options.logging_cli_opts)
    conf(config_files.first(argv, prog), project=PROJECT, prog=prog, version=f"{prog} {tonnage.__version__}")
    if with_extensions:
        enabled_extensions.register_options(conf)
    _check_values(conf)
    if not (conf.log_file or conf.log_dir or conf.use_journal):
        # Standard output is for the results of commands.
        conf.set_default("use_stderr", True)
    logging.setup(conf, PROJECT, tonnage.__version__, fix_eventlet=False)
    log_records.install()
    standard_logging.getLogger("oslo.messaging._drivers.impl_rabbit").addFilter(_tells_news)
    if not conf.use_json:
        form = _Formatter(project=PROJECT, version=tonnage.__version__, datefmt=conf.log_date_format, config=conf)
        for handler in standard_logging.getLogger().handlers:
            handler.setFormatter(form)
    standard_logging.captureWarnings(True)


def read_again(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    register: Iterable[Callable[[cfg.ConfigOpts], object]] = (),
    defaults: Mapping[str, Any] | None = None,
    *,
    with_extensions: bool = False,
) -> cfg.ConfigOpts:
    """Read the files of ``conf`` again and return the result. ``conf`` itself is not changed.

    The other arguments are the same as in :func:`configure`. Raises
    :class:`~tonnage.capacity.errors.ConfigurationError` for the first value that its option does not accept, and
    ``oslo_config.cfg.Error`` for unreadable files.
    """
    fresh = cfg.ConfigOpts()
    _register(fresh, register, defaults)
    fresh(
        config_files.first(argv, conf.prog),
        project=PROJECT,
        prog=conf.prog,
        # A missing file is an error. It must not lead to other files or to default values.
        default_config_files=conf.default_config_files,
        default_config_dirs=conf.default_config_dirs,
    )
    if with_extensions:
        enabled_extensions.register_options(fresh)
    _check_values(fresh)
    return fresh


@contextlib.contextmanager
def clean_exit(prog: str, status: int = 1) -> Iterator[None]:
    """End the process with one line on standard error and an exit status after an error in its environment.

    The status is 2 for a wrong command line. A missing library is such an error too. Other errors, which are bugs, are
    raised. It is also usable as a decorator of ``main()``.
    """
    with output.flushed(prog, status):
        try:
            yield
        except KeyboardInterrupt:
            sys.exit(130)
        except EXPECTED_ERRORS as error:
            if isinstance(error, BrokenPipeError) and output.is_closed():
                raise
            hint = _no_files_hint(cfg.CONF, prog) if isinstance(error, errors.ConfigurationError) else ""
            output.print_error(f"{prog}: {output.one_line(error)}{hint}")
            sys.exit(USAGE if isinstance(error, UsageError) else status)
        except ModuleNotFoundError as error:
            line = installation.missing_library(error)
            if line is None:
                raise
            output.print_error(f"{prog}: {line}")
            sys.exit(status)


def _no_files_hint(conf: cfg.ConfigOpts, prog: str) -> str:
    """Return an addition to error messages if no configuration file was read, otherwise an empty text."""
    try:
        read = bool(conf.config_file or conf.config_dir)
    except cfg.NoSuchOptError:  # the error came before the files were read
        return ""
    if read:
        return ""
    names = f"{PROJECT}.conf" if prog == PROJECT else f"{PROJECT}.conf or {prog}.conf"
    example = f"; 'make run' uses --config-file {_OF_CLONE}" if os.path.isfile(_OF_CLONE) else ""
    return (
        f"; no configuration file was read: there is no {names} in ~/.{PROJECT}, ~, /etc/{PROJECT} or /etc, and "
        f"--config-file names none{example}"
    )


def _register(
    conf: cfg.ConfigOpts,
    register: Iterable[Callable[[cfg.ConfigOpts], object]],
    defaults: Mapping[str, Any] | None,
) -> None:
    logging.register_options(conf)
    enabled_extensions.register(conf)
    for function in register:
        function(conf)
    for name, value in (defaults or {}).items():
        conf.set_default(name, value)


def _check_values(conf: cfg.ConfigOpts) -> None:
    """Read each value once, because oslo.config checks a value only when it is read."""
    sections: dict[str, Any] = {group: conf[group] for group in conf.list_all_sections() if group in conf}
    for section, values in {"DEFAULT": conf, **sections}.items():
        for name in values:
            try:
                number_bounds.check(values[name])
            except (cfg.Error, ValueError) as error:
                group = None if section == "DEFAULT" else section
                raise errors.ConfigurationError(option_errors.complaint(conf, name, group, error)) from None
