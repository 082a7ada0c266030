# SPDX-License-Identifier: Apache-2.0
"""Reload of a scheduler's configuration at run time, after SIGHUP."""

from collections.abc import Callable

from oslo_config import cfg

from tonnage.cli.daemons import reload
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.service import SchedulerService


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
        reload.take_over(self._conf)
        return True
