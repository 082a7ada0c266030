# SPDX-License-Identifier: Apache-2.0
"""Messages about invalid values of options: the option, its location, its value and the allowed values.

The errors of oslo.config have only some of these, and lack the value.
"""

import os
import re
from typing import Any

from oslo_config import cfg, types

from tonnage.capacity import number_bounds

#: Largest number of characters of a value in a message.
_MOST = 80

_STATED = re.compile(r"Value for option \S+ from LocationInfo\(.*detail='(.*?)'\) is not valid: (.*)", re.DOTALL)


def complaint(conf: cfg.ConfigOpts, name: str, group: str | None, error: Exception) -> str:
    """Return the message. ``error`` was raised when the option was read; a ``group`` of None is DEFAULT."""
    stated = _STATED.fullmatch(str(error))
    cause = stated[2] if stated else str(error)
    title = f"[{group or 'DEFAULT'}] {name}"
    # oslo.config has no public access to these.
    option = conf._get_opt_info(name, group)["opt"]
    is_of_type = isinstance(error, ValueError) and not isinstance(error, number_bounds.OutOfBounds)
    reason = (is_of_type and _allowed(option.type)) or cause
    value, location = _value(conf, option, group, stated[1] if stated else None)
    if value is not None and not option.secret:
        title += f" = {value if len(value) <= _MOST else value[:_MOST] + '...'}"
    return f"{title}{f' in {location}' if location else ''}: {reason}"


def _value(conf: cfg.ConfigOpts, option: Any, group: str | None, location: str | None) -> tuple[str | None, str | None]:
    """Return the value as it is written, and its location, each None if unknown."""
    variable = f"OS_{(group or 'DEFAULT').upper()}__{option.dest.upper()}"
    if variable in os.environ:  # which counts before any file
        return os.environ[variable], f"the environment variable {variable}"
    try:
        written, _ = option._get_from_namespace(conf._namespace, group)
    except (KeyError, ValueError):
        return None, location
    return ("\\n".join(written) if isinstance(written, list) else str(written)), location


def _allowed(option_type: Any) -> str | None:
    """Return the allowed values of a type, for the types whose own messages are incomplete; else None."""
    if isinstance(option_type, types.Boolean):
        return "it takes true or false"
    if isinstance(option_type, types.Number) and not option_type.choices:
        number = "a whole number" if option_type.num_type is int else "a number"
        if option_type.min is not None and option_type.max is not None:
            return f"it takes {number} from {option_type.min} to {option_type.max}"
        if option_type.min is not None:
            return f"it takes {number} of at least {option_type.min}"
        return f"it takes {number}" + ("" if option_type.max is None else f" of at most {option_type.max}")
    *choices, last = getattr(option_type, "choices", None) or [""]
    return f"it takes {', '.join(map(str, choices))} or {last}" if choices else None
