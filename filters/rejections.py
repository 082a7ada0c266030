# SPDX-License-Identifier: Apache-2.0
"""Makes sure that what filters give as a reason can be sent, stored and shown."""

from collections.abc import Mapping

import numpy as np

from tonnage.capacity import plugin_errors
from tonnage.capacity.decision import Rejection

#: The longest message, which has to fit into a line that a person reads.
_MOST = 1000

#: Larger numbers do not fit into every message.
_LARGEST = 2**63 - 1


def checked(reason: object) -> Rejection:
    """Return what a filter gave as its reason: texts of one line and numbers of Python, not of numpy.

    Raises TypeError for what is no such thing.
    """
    if type(reason) is not Rejection:
        raise TypeError(f"reason() returned {plugin_errors.kind(reason)}, expected a Rejection")
    for name, kind in (("code", str), ("message", str), ("numbers", Mapping)):
        value = getattr(reason, name)
        if not isinstance(value, kind):
            raise TypeError(f"reason() returned a Rejection whose {name} is {plugin_errors.kind(value)}")
    return Rejection(
        plugin_errors.one_line(reason.code),
        plugin_errors.one_line(reason.message, _MOST),
        {_key(key): value if type(value) is float else _number(value) for key, value in reason.numbers.items()},
    )


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"reason() returned a Rejection one of whose numbers is named by {plugin_errors.kind(key)}")
    return plugin_errors.one_line(key)


def _number(value: object) -> float | str | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return plugin_errors.one_line(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= _LARGEST else float(value)
    if isinstance(value, float):
        return float(value)
    if value is None:
        return None
    raise TypeError(f"reason() returned a Rejection one of whose numbers is {plugin_errors.kind(value)}")
