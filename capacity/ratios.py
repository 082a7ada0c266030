# SPDX-License-Identifier: Apache-2.0
"""Over-subscription ratios as people and drivers write them."""

import math

#: What ``max_over_subscription_ratio`` says where the ratio is to be worked out from the figures.
AUTO = "auto"

#: The largest over-subscription ratio, so that no limit leaves the range of floats.
MAX_RATIO = 1e6


def parse_ratio(value: object) -> float | str:
    """Return a configured over-subscription ratio: a number of 1 to a million, or ``auto``; else raise ValueError."""
    text = str(value).strip().lower()
    if text == AUTO:
        return AUTO
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 1 <= ratio <= MAX_RATIO:
        raise ValueError(f"{value!r} is neither a number of at least 1 (and at most {MAX_RATIO:.0f}) nor '{AUTO}'")
    return ratio
