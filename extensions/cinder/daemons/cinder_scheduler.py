# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-scheduler``: Cinder's own scheduler process, with the manager and the driver of Tonnage."""

from types import ModuleType

from tonnage.extensions.cinder import releases

PROG = "tonnage-cinder-scheduler"

_ROOM = "tonnage.extensions.cinder.scheduler"

#: The options that make it, with their values.
OPTIONS = {
    "scheduler_manager": f"{_ROOM}.cinder_manager.LedgerSchedulerManager",
    "scheduler_driver": f"{_ROOM}.cinder_driver.LedgerScheduler",
}


def main() -> None:
    """Run ``cinder-scheduler``, with its command line and configuration, and these two options."""
    program: ModuleType | ImportError
    try:
        program = releases.import_program()
    except ImportError as error:
        program = error
    # Cinder comes first: the imports below import libraries that eventlet patches.
    from oslo_config import cfg

    from tonnage.capacity import errors
    from tonnage.cli import setup

    with setup.clean_exit(PROG):
        version = releases.installed()
        if version is not None:
            releases.check(version)
        if isinstance(program, ImportError):
            raise errors.ConfigurationError(
                f"Cinder cannot be imported ({program}): install Tonnage in the environment of the cloud's own Cinder, "
                f"which is one of {releases.TEXT}"
            ) from program
        program.objects.register_all()
        from cinder.scheduler import manager  # noqa: F401  (registers an option)

        for name, value in OPTIONS.items():
            cfg.CONF.set_default(name, value)
        program.main()
