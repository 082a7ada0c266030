# SPDX-License-Identifier: Apache-2.0
"""Construction of an agent's backends from the configuration."""

import logging
from collections.abc import Iterable

from oslo_config import cfg

from tonnage.agent import options
from tonnage.agent.backend_agent import BackendAgent
from tonnage.agent.lock import BackendLock
from tonnage.agent.options import Settings
from tonnage.capacity import errors
from tonnage.drivers import loader
from tonnage.drivers import options as driver_options
from tonnage.drivers.base import Driver
from tonnage.drivers.options import WrongValue
from tonnage.rpc import option_errors
from tonnage.rpc.transport import Transport

LOG = logging.getLogger(__name__)

#: The time for which records of acknowledged outcomes are kept, in multiples of the time to live of a message.
_RECORD_LIVES = 10


def build(conf: cfg.ConfigOpts, transport: Transport) -> list[BackendAgent]:
    """Return the enabled backends, not yet started.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for the first backend that cannot work as configured.
    """
    return [build_one(conf, transport, section) for section in options.backends(conf)]


def build_one(conf: cfg.ConfigOpts, transport: Transport, section: str) -> BackendAgent:
    """Return one backend, not yet started, after a warning for each rule of its section that cannot be read.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError`.
    """
    name = full_name(conf, section)
    driver = _driver(conf, section)
    for problem in driver_options.unreadable_rules(driver.conf):
        LOG.warning("%s", problem)
    settings = Settings(
        availability_zone=driver.conf.backend_availability_zone or conf.storage_availability_zone,
        driver_name=driver.conf.volume_driver,
        lock_folder=options.lock_folder(conf),
        polling_interval=conf.backend_stats_polling_interval,
        listing_interval=conf.listing_interval,
        threads=conf.backend_threads,
        record_seconds=_RECORD_LIVES * conf.rpc_message_ttl,
    )
    return BackendAgent(name, driver, transport, settings)


def validate(conf: cfg.ConfigOpts) -> list[str]:
    """Return the sections of the enabled backends after a check of all of them, without access to any storage.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if :func:`build` would refuse
    one, or if another process runs it.
    """
    sections = options.backends(conf)
    check(conf, sections)
    for section in sections:
        lock = BackendLock(options.lock_folder(conf), full_name(conf, section))
        lock.acquire()
        lock.release()
    return sections


def check(conf: cfg.ConfigOpts, sections: Iterable[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if a backend cannot be built from its section."""
    for section in sections:
        _driver(conf, section)


def _driver(conf: cfg.ConfigOpts, section: str) -> Driver:
    try:
        return loader.load(full_name(conf, section), section, conf)
    except WrongValue as wrong:
        raise errors.ConfigurationError(
            option_errors.complaint(conf, wrong.name, wrong.section, wrong.error)
        ) from wrong.error


def full_name(conf: cfg.ConfigOpts, section: str) -> str:
    """Return the full name of a backend, ``host@backend``."""
    return f"{conf.host}@{section}"
