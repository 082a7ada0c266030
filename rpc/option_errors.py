# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the value of an option: which, where it stands, what it is and what is allowed.

oslo.config's errors say half of it, and what it was that did not fit is not in them.
"""

import os
import re
from typing import Any

from oslo_config import cfg, types

#: Most characters of a value that are shown.
_MOST = 80

_STATED = re.compile(r"Value for option \S+ from LocationInfo\(.*detail='(.*?)'\) is not valid: (.*)", re.DOTALL)


def complaint(conf: cfg.ConfigOpts, name: str, group: str | None, error: Exception) -> str:
    """Return it in one sentence. ``error`` is what was raised when the option was read, ``group`` None: DEFAULT."""
    stated = _STATED.fullmatch(str(error))
    cause = stated[2] if stated else str(error)
    title = f"[{group or 'DEFAULT'}] {name}"
    # oslo.config has no other way to either.
    option = conf._get_opt_info(name, group)["opt"]
    said = (isinstance(error, ValueError) and _allowed(option.type)) or cause
    value, place = _value(conf, option, group, stated[1] if stated else None)
    if value is not None and not option.secret:
        title += f" = {value if len(value) <= _MOST else value[:_MOST] + '...'}"
    return f"{title}{f' in {place}' if place else ''}: {said}"


def _value(conf: cfg.ConfigOpts, option: Any, group: str | None, place: str | None) -> tuple[str | None, str | None]:
    """Return what is written, and where, as far as that can be told."""
    variable = f"OS_{(group or 'DEFAULT').upper()}__{option.dest.upper()}"
    if variable in os.environ:  # which counts before any file
        return os.environ[variable], f"the environment variable {variable}"
    try:
        written, _ = option._get_from_namespace(conf._namespace, group)
    except (KeyError, ValueError):
        return None, place
    return ("\\n".join(written) if isinstance(written, list) else str(written)), place


def _allowed(kind: Any) -> str | None:
    """Return what values a type takes, of those whose own words leave something out."""
    if isinstance(kind, types.Boolean):
        return "it takes true or false"
    if isinstance(kind, types.Number) and not kind.choices:
        number = "a whole number" if kind.num_type is int else "a number"
        if kind.min is not None and kind.max is not None:
            return f"it takes {number} from {kind.min} to {kind.max}"
        if kind.min is not None:
            return f"it takes {number} of at least {kind.min}"
        return f"it takes {number}" + ("" if kind.max is None else f" of at most {kind.max}")
    *others, last = getattr(kind, "choices", None) or [""]
    return f"it takes {', '.join(map(str, others))} or {last}" if others else None
