# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-scheduler``: manager and driver in Cinder, probes, poll; imports Cinder.

An unsuitable release of Cinder is reported here, before a module fails in it: ``cinder-scheduler`` itself imports this
package too, where the configuration names its classes.
"""

import logging

from tonnage.capacity import errors
from tonnage.extensions.cinder import releases

LOG = logging.getLogger(__name__)


def _report(version: str) -> None:
    """Log a warning about a later version of Cinder in one line; end this process if the version is too old."""
    try:
        warning = releases.check(version)
    except errors.ConfigurationError as error:
        problem = error.message
    else:
        if warning is not None:
            LOG.warning("%s", warning)
        return
    # Outside of the handler, or the log line has the text twice.
    LOG.critical("%s", problem)
    raise SystemExit(1)


if (_installed := releases.installed()) is not None:
    _report(_installed)
