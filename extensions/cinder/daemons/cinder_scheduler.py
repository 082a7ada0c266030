# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-scheduler``: Cinder's own scheduler process, with the manager and the driver of Tonnage."""

import os

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import setup

PROG = "tonnage-cinder-scheduler"

_ROOM = "tonnage.extensions.cinder.scheduler"

#: The options that make it, with their values.
OPTIONS = {
    "scheduler_manager": f"{_ROOM}.cinder_manager.LedgerSchedulerManager",
    "scheduler_driver": f"{_ROOM}.cinder_driver.LedgerScheduler",
}


@setup.clean_exit(PROG)
def main() -> None:
    """Run ``cinder-scheduler``, with its command line and configuration, and these two options."""
    # Cinder reads it when it is imported. Its scheduler then runs on threads.
    os.environ.setdefault("OS_CINDER_DISABLE_EVENTLET_PATCHING", "1")
    try:
        from cinder.cmd import scheduler

        scheduler.objects.register_all()
        from cinder.scheduler import manager  # noqa: F401  (registers an option)
    except ImportError as error:
        raise errors.ConfigurationError(
            f"Cinder cannot be imported ({error}): install Tonnage in the environment of the cloud's own Cinder"
        ) from error
    for name, value in OPTIONS.items():
        cfg.CONF.set_default(name, value)
    scheduler.main()
