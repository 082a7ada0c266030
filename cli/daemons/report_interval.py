# SPDX-License-Identifier: Apache-2.0
"""Check of the interval between two reports against the time after which a backend counts as down.

Reports are a backend's only heartbeat. Cinder's services send separate heartbeats every ``report_interval``, so there
the interval between two reports may be as long as ``service_down_time``.
"""

import logging

from oslo_config import cfg

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

_INTERVAL = "backend_stats_polling_interval"
_DOWN = "service_down_time"


def check(conf: cfg.ConfigOpts, *, alone: bool) -> None:
    """Warn if a single lost report makes a backend count as down.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if backends would be down between any two reports. If
    the process is not ``alone``, and ``service_down_time`` is not set here, the schedulers may have another value; then
    this is a warning as well.
    """
    interval, down = conf[_INTERVAL], conf[_DOWN]
    if 2 * interval <= down:
        return
    origin = conf.get_location(_DOWN)
    is_certain = alone or (origin is not None and origin.location is not cfg.Locations.opt_default)
    problem = f"{_INTERVAL} = {interval} is too long for {_DOWN} = {down}"
    if not is_certain:
        problem += ", the default, if the schedulers have no other"
    advice = f"set it to {max(1, down // 3)}, or {_DOWN} to {3 * interval} wherever that is set"
    if interval >= down and is_certain:
        raise errors.ConfigurationError(
            f"[DEFAULT] {problem}: every backend would be down between two reports; {advice}"
        )
    effect = "every backend is down between two reports" if interval >= down else "one lost report takes a backend out"
    LOG.warning("[DEFAULT] %s: %s; %s", problem, effect, advice)
