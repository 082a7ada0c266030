# SPDX-License-Identifier: Apache-2.0
"""Types of the fields of bodies, for the validation of requests and for the OpenAPI document.

Unknown keys of bodies are refused where Cinder's schemas refuse them. A constraint that a type cannot express is in two
places of the code: in ``__post_init__``, and as JSON Schema in :func:`json_schema`.
"""

import re
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct

from tonnage.api.schemas import booleans
from tonnage.capacity import request, type_specs
from tonnage.capacity.units import MAX_SIZE_GB

#: Most characters of a text field.
MAX_LENGTH = 255

#: A pattern for text that is not blank. It matches the same in Python and in JSON Schema, where ``\s`` differs.
NOT_BLANK = r"[^\s\x1c-\x1f\x85\ufeff]"


class Body(Struct, forbid_unknown_fields=True):
    """The base class of request bodies and of the objects in them."""


def json_schema(**schema: Any) -> Meta:
    """Return an annotation that adds keys to the JSON Schema of a type."""
    return Meta(extra_json_schema=schema)


def at_least_one_of(*names: str) -> Meta:
    """Return an annotation: at least one of these fields is present and not null."""
    not_null = {"type": ["string", "boolean", "integer"]}
    return json_schema(anyOf=[{"required": [name], "properties": {name: not_null}} for name in names])


Text: TypeAlias = Annotated[str, Meta(max_length=MAX_LENGTH)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH)]
#: In Python ``$`` also matches before a line feed at the end, in JSON Schema it does not.
SpecKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. /-]+$(?!\n)")]
Scalar: TypeAlias = str | int | float | bool | None

#: The accepted values of a field for a feature that Tonnage does not support.
EMPTY_VALUES: tuple[Any, ...] = (None, False, 0, "", [], {})
Unsupported: TypeAlias = Annotated[Any, json_schema(enum=list(EMPTY_VALUES))]
Flag: TypeAlias = Annotated[Any, json_schema(enum=list(booleans.VALUES))]
#: A flag that only true would ask for an unsupported feature.
FalseFlag: TypeAlias = Annotated[
    Any, json_schema(enum=[value for value in booleans.VALUES if not booleans.parse(value)])
]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH, pattern=NOT_BLANK)]
#: The values of a hint may be nested as deeply as CSI's ``TopologyRequirement``, the deepest known one. Not every
#: database accepts deeper JSON.
_Deep: TypeAlias = Scalar | list[Scalar] | dict[str, Scalar]
_Deeper: TypeAlias = Scalar | list[_Deep] | dict[str, _Deep]
_Deepest: TypeAlias = Scalar | list[_Deeper] | dict[str, _Deeper]
Hints: TypeAlias = dict[Key, Scalar | list[Scalar] | dict[str, _Deepest]]

#: The values of extra specs that limit requests.
_SPEC_VALUES = {
    request.PROVISIONING_SPEC: {"enum": list(request.Provisioning)},
    type_specs.MIN_SIZE: {"pattern": type_specs.SIZE_PATTERN},
    type_specs.MAX_SIZE: {"pattern": type_specs.SIZE_PATTERN},
    type_specs.ZONES: {"pattern": type_specs.ZONES_PATTERN},
    type_specs.EXTEND_BY_MIGRATION: {"pattern": type_specs.FLAG_PATTERN},
}
#: Extra specs.
Specs: TypeAlias = Annotated[dict[SpecKey, Text], json_schema(properties=_SPEC_VALUES)]
#: ``PUT /types/{id}/extra_specs/{key}``.
OneSpec: TypeAlias = Annotated[
    dict[SpecKey, Text],
    Meta(min_length=1, max_length=1),
    json_schema(properties=_SPEC_VALUES),
]

_DIGITS = re.compile("^[1-9][0-9]{0,8}$")


class Size(int):
    """A size in whole GiB, from a number or a text of digits."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_SIZE_GB},
            {"type": "string", "pattern": _DIGITS.pattern},
        ]
    }

    @classmethod
    def parse(cls, value: Any) -> "Size":
        """Return the size. Raises :class:`ValueError` for an invalid one."""
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON does not distinguish 3.0 from 3
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE_GB:
            raise ValueError(f"expected a whole number of GiB from 1 to {MAX_SIZE_GB}")
        return cls(value)


#: The arguments of an action that ignores them.
AnyArguments: TypeAlias = Any


def parse_flag(name: str, value: Any) -> bool:
    """Return a boolean from one of :data:`tonnage.api.schemas.booleans.VALUES`. Raises :class:`ValueError`."""
    try:
        return booleans.parse(value)
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None


def reject_cluster(cluster: object) -> None:
    """Raise :class:`ValueError` if ``cluster`` has a value."""
    if cluster not in EMPTY_VALUES:
        raise ValueError("cluster is set, and clusters are not supported: name a host")
