# SPDX-License-Identifier: Apache-2.0
"""Reload of a scheduler's configuration at run time, after SIGHUP."""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping

from oslo_config import cfg

from tonnage.cli import output
from tonnage.cli.daemons import reload
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)


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

        return bool(reload.attempt(check))

    def apply(self, scheduler: SchedulerService) -> bool:
        """Apply the current files to the scheduler, completely or not at all, and return whether that was possible.

        Log options that require a restart.
        """

        def change() -> bool:
            scheduler.change(self._read())
            return True

        if not reload.attempt(change):
            return False
        try:
            # Logs each changed option, with a warning for options that require a restart.
            with _masked(_secrets(self._conf)):
                self._conf.mutate_config_files()
        except cfg.Error as error:  # the files have just changed again
            LOG.warning("The configuration files have become unreadable: %s", output.one_line(error))
        return True


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
