# SPDX-License-Identifier: Apache-2.0
"""The time for which the figures of a pool are valid after its report."""

import math
from collections.abc import Mapping
from typing import Any

#: The capability of pools, and the option of backends and pools, with that time in seconds.
LIFETIME = "report_lifetime"


def lifetime(capabilities: Mapping[str, Any]) -> float:
    """Return the number of seconds for which figures are valid: ``inf`` if the pool sets no limit.

    The result is 0 for a value that is no number, so that no figures are used longer than they should be.
    """
    value = capabilities.get(LIFETIME)
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return 0.0
    return float(value)
