# SPDX-License-Identifier: Apache-2.0
"""What every process does first: read the configuration, set up logging, and turn mistakes into one clear line."""

import contextlib
import logging as standard_logging
import re
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors

PROJECT = "tonnage"

#: Errors that are not of the program but of what is around it.
OF_OTHERS = (errors.TonnageError, cfg.Error, OSError)

#: Libraries that would tell of each message, connection or plugin.
_LOG_LEVELS = (
    "alembic=WARN",
    "amqp=WARN",
    "kombu=WARN",
    # Warns that no host is named of an address that has none, kombu+memory://.
    "kombu.connection=ERROR",
    # Takes many calls at the same time for a leak.
    "oslo_messaging._drivers.amqpdriver=ERROR",
    # Logs a traceback of what it then raises.
    "oslo_db.sqlalchemy.exc_filters=ERROR",
    "oslo.messaging=WARN",
    "oslo_messaging=WARN",
    "sqlalchemy=WARN",
    # Warns of a plugin that is not there before whoever asked for it can say so better.
    "stevedore=ERROR",
    "urllib3=WARN",
)


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
    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for the first value that does not fit its option.
    """
    logging.set_defaults(default_log_levels=list(_LOG_LEVELS))
    _register(conf, register, defaults)
    conf(list(argv), project=PROJECT, prog=prog, version=f"{prog} {tonnage.__version__}")
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
        list(argv),
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

    Also usable as a decorator of ``main()``. Errors of the program itself come through.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except OF_OTHERS as error:
        print(f"{prog}: {one_line(error)}", file=sys.stderr, flush=True)
        sys.exit(status)


def one_line(error: BaseException) -> str:
    """Return what is wrong in one line, whatever the text came from."""
    return " ".join(str(error).split()) or type(error).__name__


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
                raise errors.ConfigurationError(f"[{section}] {name}{_cause(error)}") from None


def _cause(error: Exception) -> str:
    """Return where a value stands and what is wrong with it, without what oslo.config puts around that."""
    stated = re.fullmatch(r"Value for option \S+ from LocationInfo\(.*detail='(.*?)'\) is not valid: (.*)", str(error))
    return f" in {stated[1]}: {stated[2]}" if stated else f": {error}"
