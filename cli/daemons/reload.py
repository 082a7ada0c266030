# SPDX-License-Identifier: Apache-2.0
"""Reading the configuration files again at run time, after SIGHUP: the steps of all daemons."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import output, setup, unknown_options

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def confirm(conf: cfg.ConfigOpts) -> None:
    """Log that a configuration is in use, and a warning for each of its options that does not exist."""
    unknown_options.warn(conf)
    LOG.info("The configuration has been read again")


def attempt(work: Callable[[], T]) -> T | None:
    """Return the result of ``work``, which reads configuration files. Return None after an error, which is logged."""
    try:
        return work()
    except errors.MissingPlugin as error:
        problem = f"{error.message}; restart this process if the package was installed after its start"
    except setup.EXPECTED_ERRORS as error:
        problem = output.one_line(error)
    except Exception:
        # The process keeps its configuration after any error of a plug-in.
        LOG.exception("The configuration could not be taken over")
        return None
    # Inside the exception handler oslo.log would log the exception again.
    LOG.error("The configuration stays as it was: %s", problem)
    return None


def take_over(conf: cfg.ConfigOpts, *, logged: bool = True) -> None:
    """Take over the options in the files of ``conf`` that can change at run time.

    With ``logged`` each changed option is logged, with a warning for those that require a restart.
    """
    filtering = _SecretFilter(_secrets(conf)) if logged else _nothing
    cfg.LOG.addFilter(filtering)
    try:
        conf.mutate_config_files()
    except cfg.Error as error:  # the files have just changed again
        LOG.warning("The configuration files have become unreadable: %s", output.one_line(error))
    finally:
        cfg.LOG.removeFilter(filtering)


def _nothing(record: logging.LogRecord) -> bool:
    """Let no record of a log pass."""
    return False


class _SecretFilter(logging.Filter):
    """A log filter that masks the values of secret options, because oslo.config logs all changed values."""

    def __init__(self, options: Collection[str]) -> None:
        super().__init__()
        self._options = options

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask secret values in the record. Return True, so that every record passes."""
        if isinstance(record.args, Mapping) and record.args.get("option") in self._options:
            record.args = {**record.args, "old_val": "****", "new_val": "****"}
        return True


def _secrets(conf: cfg.ConfigOpts) -> set[str]:
    """Return the names of secret options of all sections."""
    return {info["opt"].name for info, _ in conf._all_opt_infos() if info["opt"].secret}
