# SPDX-License-Identifier: Apache-2.0
"""What fields of bodies may hold: the types that requests are checked by and the OpenAPI document is made of.

Unknown keys of bodies are ignored, as clients of other releases send some. What a type cannot say is said twice, side
by side: in ``__post_init__``, and as JSON Schema in :func:`also`.
"""

import re
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta

from tonnage.api.http import booleans
from tonnage.capacity import request
from tonnage.capacity.units import MAX_SIZE_GB

#: Most characters of a text.
LONGEST = 255

#: What a text has that is not blank, alike in Python and in JSON Schema, where ``\s`` has other characters in it.
VISIBLE = r"[^\s\x1c-\x1f\x85\ufeff]"


def also(**schema: Any) -> Meta:
    """Return what is to be said of a type beside what it says itself, as JSON Schema."""
    return Meta(extra_json_schema=schema)


def some_of(*names: str) -> Meta:
    """Say that of these fields at least one is not null."""
    given = {"type": ["string", "boolean", "integer"]}
    return also(anyOf=[{"required": [name], "properties": {name: given}} for name in names])


Text: TypeAlias = Annotated[str, Meta(max_length=LONGEST)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
SpecKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+$")]
Scalar: TypeAlias = str | int | float | bool | None

#: A field for what Tonnage does not do: nothing can be said in it.
NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
Nothing: TypeAlias = Annotated[Any, also(enum=list(NOTHING))]
Flag: TypeAlias = Annotated[Any, also(enum=list(booleans.VALUES))]
Named: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=VISIBLE)]
#: What a hint holds that is an object: as deep as the longest that is known, CSI's ``TopologyRequirement``. Deeper JSON
#: not every database takes.
_Deep: TypeAlias = Scalar | list[Scalar] | dict[str, Scalar]
_Deeper: TypeAlias = Scalar | list[_Deep] | dict[str, _Deep]
_Deepest: TypeAlias = Scalar | list[_Deeper] | dict[str, _Deeper]
Hints: TypeAlias = dict[Key, Scalar | list[Scalar] | dict[str, _Deepest]]

#: Of ``provisioning:type`` only some values can be meant.
Specs: TypeAlias = Annotated[
    dict[SpecKey, Text], also(properties={request.PROVISIONING_SPEC: {"enum": list(request.Provisioning)}})
]
#: ``PUT /types/{id}/extra_specs/{key}``.
OneSpec: TypeAlias = Annotated[
    dict[SpecKey, Text],
    Meta(min_length=1, max_length=1),
    also(properties={request.PROVISIONING_SPEC: {"enum": list(request.Provisioning)}}),
]

_DIGITS = re.compile("^[1-9][0-9]{0,8}$")


class Size(int):
    """A size in whole GiB, sent as a number or as digits."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_SIZE_GB},
            {"type": "string", "pattern": _DIGITS.pattern},
        ]
    }

    @classmethod
    def parse(cls, value: Any) -> "Size":
        """Return the size. Raises :class:`ValueError`."""
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON does not tell 3.0 from 3
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE_GB:
            raise ValueError(f"expected a whole number of GiB from 1 to {MAX_SIZE_GB}")
        return cls(value)


#: The arguments of an action that takes none: whatever is sent.
Anything: TypeAlias = Any


def flag(name: str, value: Any) -> bool:
    """Return what is true or false, sent as such or as a word. Raises :class:`ValueError`."""
    try:
        return booleans.parse(value)
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None


def refuse_cluster(cluster: object) -> None:
    """Raise :class:`ValueError` for what names a cluster."""
    if cluster not in NOTHING:
        raise ValueError("cluster is set, and clusters are not supported: name a host")
