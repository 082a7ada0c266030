# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for quotas and limits."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from tonnage.api.schemas.fields import Body
from tonnage.quotas.limits import PER_TYPE, UNLIMITED, Resource

#: The largest limit, which fits into a column of the database.
MAX_LIMIT = 2**31 - 1

#: Keys that clients send in addition to limits.
_IGNORED_KEYS = ("id", "tenant_id", "project_id", "user_id", "class_name", "force")

_DIGITS = re.compile("^-1$|^[0-9]{1,9}$")
_LIMIT = {
    "anyOf": [
        {"type": "integer", "minimum": UNLIMITED, "maximum": MAX_LIMIT},
        {"type": "string", "pattern": _DIGITS.pattern},
        {"type": "null"},
    ]
}


class LimitValues:
    """Limits by the names of the API. A limit that is null is not changed."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {**dict.fromkeys(map(str, Resource), _LIMIT), **{name: {} for name in _IGNORED_KEYS}},
        "patternProperties": {f"^({'|'.join(PER_TYPE)})_": _LIMIT},
        "additionalProperties": False,
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    @classmethod
    def parse(cls, sent: Any) -> "LimitValues":
        """Return the limits of a body. Raises :class:`ValueError` for an invalid one."""
        if not isinstance(sent, dict):
            raise ValueError("expected an object")
        return cls(
            {
                name: _limit(name, value)
                for name, value in sent.items()
                if name not in _IGNORED_KEYS and value is not None
            }
        )


def _limit(name: str, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON does not distinguish 3.0 from 3
    if isinstance(value, bool) or not isinstance(value, int) or not UNLIMITED <= value <= MAX_LIMIT:
        raise ValueError(f"{name} has to be a whole number from {UNLIMITED}, which is no limit, to {MAX_LIMIT}")
    return value


class SetQuotas(Body):
    """New limits of a project, or of a user in it."""

    quota_set: LimitValues


class SetClassQuotas(Body):
    """New limits of a quota class."""

    quota_class_set: LimitValues


class LimitUsage(Struct):
    """A limit and its usage. ``reserved`` is the usage of operations in progress, and not part of ``in_use``."""

    limit: int
    in_use: int = 0
    reserved: int = 0


class QuotaSet(Struct):
    """Limits by name, -1 for none; with ``usage`` an object for each limit.

    The response to GET also has the ``id`` of the project; the response to PUT does not.
    """

    quota_set: dict[str, int | str | LimitUsage]


class QuotaClassSet(Struct):
    """Limits of a quota class by name, -1 for none."""

    quota_class_set: dict[str, int | str]


class Absolute(Struct):
    """The limits and the usage of a project by name, -1 for no limit."""

    rate: list[Any]
    absolute: dict[str, int]


class Limits(Struct):
    """Limits and usage of a project."""

    limits: Absolute
