# SPDX-License-Identifier: Apache-2.0
"""Units and the wire forms of capacities.

All sizes are GiB (2**30 bytes). In memory, an unknown capacity is ``nan`` and an infinite one ``inf``; on the wire
they are the strings ``unknown`` and ``infinite``.

The help of commands needs this module, and must not wait for NumPy.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GIB = 2**30

UNKNOWN = "unknown"
INFINITE = "infinite"

#: The largest capacity in a report: 2**40 GiB (1 ZiB). Up to this value, floats distinguish hundredths of a GiB.
MAX_CAPACITY_GB = float(2**40)

#: The largest size of a volume, in GiB: the largest value of a signed 32-bit column, as Block Storage clients expect.
MAX_SIZE_GB = 2**31 - 1


def to_wire(capacity_gb: float) -> float | str:
    """Return a capacity in its form in reports and the API."""
    if math.isnan(capacity_gb):
        return UNKNOWN
    if math.isinf(capacity_gb):
        return INFINITE
    return capacity_gb


def column_to_wire(capacities_gb: "npt.NDArray[np.float64]") -> list[float | str]:
    """Return a column of capacities in their form in reports and the API."""
    import numpy as np

    values: list[float | str] = capacities_gb.tolist()
    if not np.isfinite(capacities_gb).all():
        return [to_wire(float(value)) for value in values]
    return values
