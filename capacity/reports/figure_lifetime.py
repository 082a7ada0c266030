# SPDX-License-Identifier: Apache-2.0
"""For how long the figures of a pool may be used."""

import math
from collections.abc import Mapping
from typing import Any

#: The capability, and the option of backends and pools, that says for how many seconds after a report.
LIFETIME = "report_lifetime"


def lifetime(capabilities: Mapping[str, Any]) -> float:
    """Return for how many seconds figures may be used: ``inf`` where the pool sets no limit, 0 where it is no number.

    Rather none are used than some that should not be.
    """
    value = capabilities.get(LIFETIME)
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return 0.0
    return float(value)
