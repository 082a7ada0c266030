# SPDX-License-Identifier: Apache-2.0
"""Quantities of Kubernetes: sizes such as ``1.5Gi``, ``500M`` and ``1e3``.

The official client's ``parse_quantity`` is not used. It accepts values that Kubernetes refuses (``1K``, ``Infinity``,
``1_000``, blanks), rounds to the nearest at 28 digits, and neither rounds up to whole bytes nor applies the cap.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Self

#: The largest quantity. Quantities have 64 bits, and larger values are reduced to this one.
MAX_BYTES = 2**63 - 1

#: Largest number of characters that are parsed.
_MAX_LENGTH = 64

_GRAMMAR = r"([+-]?)(?:([0-9]+)\.?([0-9]*)|\.([0-9]+))(?:([KMGTPE])i|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
_PARTS = re.compile(_GRAMMAR)
_BINARY = "KMGTPE"
_UNITS = ((1024, [f"{letter}i" for letter in _BINARY]), (1000, [*"kMGTPE"]))
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class Quantity(int):
    """A number of bytes from a request body."""

    #: The schema of a quantity in OpenAPI documents.
    SCHEMA: ClassVar[dict[str, Any]] = {
        "description": "A quantity of bytes, as Kubernetes writes them: 1.5Gi, 500M, 1e3.",
        "anyOf": [
            {"type": "string", "pattern": f"^{_GRAMMAR.replace('([+-]?)', '[+]?', 1)}$", "maxLength": _MAX_LENGTH},
            {"type": "number", "minimum": 0},
        ],
        "examples": ["1.5Gi"],
    }

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the quantity of a value. Raises ValueError."""
        return cls(parse(value))


def parse(value: object) -> int:
    """Return a quantity in bytes, rounded up to whole bytes and reduced to :data:`MAX_BYTES`.

    Raises ValueError for a malformed or negative quantity.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a quantity like 1.5Gi, got {type(value).__name__}")
    text = str(value)
    parts = _PARTS.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if parts is None:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is no quantity: expected a number like 1.5Gi, 500M or 1e3")
    sign, whole, fraction, only_fraction, binary, decimal, exponent = parts.groups()
    fraction = fraction or only_fraction or ""
    digits = int((whole or "") + fraction)
    if sign == "-" and digits:
        raise ValueError(f"{text!r} is less than 0")
    if binary:
        return min(_ceil_divide(digits << 10 * (_BINARY.index(binary) + 1), len(fraction)), MAX_BYTES)
    power = _DECIMAL[decimal] if decimal else int(exponent or 0)
    return _scale(digits, power - len(fraction))


@functools.lru_cache(maxsize=4096)
def render(size: int) -> str:
    """Return a number of bytes in the unit of Kubernetes that makes the smallest whole number of it.

    So a size has the unit that a user would choose: 10G, although 9765625Ki is the same.
    """
    return min((_in_units(size, base, units) for base, units in _UNITS), key=lambda pair: pair[0])[1]


def _in_units(size: int, base: int, units: Sequence[str]) -> tuple[int, str]:
    """Return the number of the largest of these units that divides a number of bytes, and the quantity."""
    unit, quotient = "", size
    for larger in units:
        if not quotient or quotient % base:
            break
        unit, quotient = larger, quotient // base
    return quotient, f"{quotient}{unit}"


def _scale(digits: int, power: int) -> int:
    if not digits:
        return 0
    if power <= 0:
        # So far behind the point all digits together are less than a byte, which is rounded up to one.
        return min(_ceil_divide(digits, min(-power, _MAX_LENGTH)), MAX_BYTES)
    return MAX_BYTES if power > len(str(MAX_BYTES)) else min(digits * int(10**power), MAX_BYTES)


def _ceil_divide(digits: int, places: int) -> int:
    return -(-digits // int(10**places))
