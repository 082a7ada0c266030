# SPDX-License-Identifier: Apache-2.0
"""Whether backends report often enough to count as up.

A report is a backend's only sign of life. In Cinder a service gives one of its own, every ``report_interval``, so its
interval between two reports may be as long as what counts as silence.
"""

import logging

from oslo_config import cfg

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

_INTERVAL = "backend_stats_polling_interval"
_DOWN = "service_down_time"


def check(conf: cfg.ConfigOpts, *, alone: bool) -> None:
    """Warn of an interval with which one report that gets lost takes a backend out.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for one with which backends go down between any two
    reports. Not ``alone``, as what counts as silence is said elsewhere if it is not said here: then it is a warning.
    """
    interval, down = conf[_INTERVAL], conf[_DOWN]
    if 2 * interval <= down:
        return
    place = conf.get_location(_DOWN)
    known = alone or (place is not None and place.location is not cfg.Locations.opt_default)
    found = f"{_INTERVAL} = {interval} is too long for {_DOWN} = {down}"
    if not known:
        found += ", the default, if the schedulers have no other"
    advice = f"set it to {max(1, down // 3)}, or {_DOWN} to {3 * interval} wherever that is set"
    if interval >= down and known:
        raise errors.ConfigurationError(f"[DEFAULT] {found}: every backend would be down between two reports; {advice}")
    what = "every backend is down between two reports" if interval >= down else "one lost report takes a backend out"
    LOG.warning("[DEFAULT] %s: %s; %s", found, what, advice)
