# SPDX-License-Identifier: Apache-2.0
"""Validation of the rejections that filters return as reasons, so that they can be sent, stored and shown."""

from collections.abc import Mapping

import numpy as np

from tonnage.capacity import plugin_errors
from tonnage.capacity.decision import Rejection

#: Maximum length of a message, in characters: it has to fit into one readable line.
_MAX_LENGTH = 1000

#: The largest integer that fits into every kind of message.
_MAX_INTEGER = 2**63 - 1


def checked(reason: object) -> Rejection:
    """Return a filter's rejection with single-line texts, and with Python numbers in place of numpy numbers.

    Raises TypeError if ``reason`` is not a rejection, or a field of it has an unexpected type.
    """
    if type(reason) is not Rejection:
        raise TypeError(f"reason() returned {plugin_errors.type_text(reason)}, expected a Rejection")
    for name, expected_type in (("code", str), ("message", str), ("numbers", Mapping)):
        value = getattr(reason, name)
        if not isinstance(value, expected_type):
            raise TypeError(f"reason() returned a Rejection whose {name} is {plugin_errors.type_text(value)}")
    return Rejection(
        plugin_errors.one_line(reason.code),
        plugin_errors.one_line(reason.message, _MAX_LENGTH),
        {_key(key): value if type(value) is float else _number(value) for key, value in reason.numbers.items()},
    )


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(
            f"reason() returned a Rejection one of whose numbers is named by {plugin_errors.type_text(key)}"
        )
    return plugin_errors.one_line(key)


def _number(value: object) -> float | str | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return plugin_errors.one_line(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= _MAX_INTEGER else float(value)
    if isinstance(value, float):
        return float(value)
    if value is None:
        return None
    raise TypeError(f"reason() returned a Rejection one of whose numbers is {plugin_errors.type_text(value)}")
