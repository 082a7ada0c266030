# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests and answers about quotas and limits."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from tonnage.quotas.limits import PER_TYPE, UNLIMITED, Resource

#: Largest limit: what a column of the database holds.
LARGEST = 2**31 - 1

#: What clients send along with limits.
_BESIDE = ("id", "tenant_id", "project_id", "user_id", "class_name", "force")

_DIGITS = re.compile("^-1$|^[0-9]{1,9}$")
_LIMIT = {
    "anyOf": [
        {"type": "integer", "minimum": UNLIMITED, "maximum": LARGEST},
        {"type": "string", "pattern": _DIGITS.pattern},
        {"type": "null"},
    ]
}


class Values:
    """Limits by what clients call them. One that is null is not changed."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {**dict.fromkeys(map(str, Resource), _LIMIT), **{name: {} for name in _BESIDE}},
        "patternProperties": {f"^({'|'.join(PER_TYPE)})_": _LIMIT},
        "additionalProperties": False,
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    @classmethod
    def parse(cls, sent: Any) -> "Values":
        """Return the limits that were sent. Raises :class:`ValueError`."""
        if not isinstance(sent, dict):
            raise ValueError("expected an object")
        return cls(
            {name: _limit(name, value) for name, value in sent.items() if name not in _BESIDE and value is not None}
        )


def _limit(name: str, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON does not tell 3.0 from 3
    if isinstance(value, bool) or not isinstance(value, int) or not UNLIMITED <= value <= LARGEST:
        raise ValueError(f"{name} has to be a whole number from {UNLIMITED}, which is no limit, to {LARGEST}")
    return value


class SetQuotas(Struct):
    """New limits of a project, or of a user in it."""

    quota_set: Values


class SetClassQuotas(Struct):
    """New limits of a class of projects."""

    quota_class_set: Values


class LimitUsage(Struct):
    """A limit, and what counts against it; ``reserved`` is what is being made, and not contained in ``in_use``."""

    limit: int
    in_use: int = 0
    reserved: int = 0


class QuotaSet(Struct):
    """Limits by name, -1 for none, with the ``id`` of whose they are; with ``usage`` an object for each."""

    quota_set: dict[str, int | str | LimitUsage]


class QuotaClassSet(Struct):
    """The same for a class."""

    quota_class_set: dict[str, int | str]


class Absolute(Struct):
    """What a project may have and has, -1 for no limit."""

    rate: list[Any]
    absolute: dict[str, int]


class Limits(Struct):
    """Limits and usage of a project."""

    limits: Absolute
