# SPDX-License-Identifier: Apache-2.0
"""Reload of a scheduler's configuration at run time, after SIGHUP."""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import output, setup, unknown_options
from tonnage.scheduler import settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class ConfigReloader:
    """Applies changes in the files of ``conf``. ``read`` returns their current content as another configuration."""

    def __init__(self, conf: cfg.ConfigOpts, read: Callable[[], cfg.ConfigOpts]) -> None:
        self._conf = conf
        self._read = read

    def is_usable(self) -> bool:
        """Return whether a scheduler could start with the current files. Log the error if it could not."""

        def check() -> bool:
            settings.validate(self._read())
            return True

        return bool(attempt(check))

    def apply(self, scheduler: SchedulerService) -> bool:
        """Apply the current files to the scheduler, completely or not at all, and return whether that was possible.

        Log options that require a restart.
        """

        def change() -> bool:
            scheduler.change(self._read())
            return True

        if not attempt(change):
            return False
        try:
            # Logs each changed option, with a warning for options that require a restart.
            with _masked(_secrets(self._conf)):
                self._conf.mutate_config_files()
        except cfg.Error as error:  # the files have just changed again
            LOG.warning("The configuration files have become unreadable: %s", output.one_line(error))
        return True


def confirm(conf: cfg.ConfigOpts) -> None:
    """Log that a configuration is in use, and a warning for each of its options that does not exist."""
    unknown_options.warn(conf)
    LOG.info("The configuration has been read again")


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


@contextlib.contextmanager
def _masked(options: Collection[str]) -> Iterator[None]:
    mask = _SecretFilter(options)
    cfg.LOG.addFilter(mask)
    try:
        yield
    finally:
        cfg.LOG.removeFilter(mask)


def _secrets(conf: cfg.ConfigOpts) -> set[str]:
    """Return the names of secret options of all sections."""
    return {info["opt"].name for info, _ in conf._all_opt_infos() if info["opt"].secret}


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
