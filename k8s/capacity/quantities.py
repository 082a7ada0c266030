# SPDX-License-Identifier: Apache-2.0
"""Sizes as Kubernetes writes them: ``1.5Gi``, ``500M``, ``1e3``.

The official client's ``parse_quantity`` is not used: it takes what Kubernetes refuses (``1K``, ``Infinity``, ``1_000``,
blanks), rounds at 28 digits to the nearest, and knows neither the rounding up to whole bytes nor the cap.
"""

import functools
import re
from typing import Any, ClassVar, Self

#: What is larger counts as this: quantities are 64 bits wide.
MOST = 2**63 - 1

#: Longest text that is read, in characters.
_LONGEST = 64

_GRAMMAR = r"([+-]?)(?:([0-9]+)\.?([0-9]*)|\.([0-9]+))(?:([KMGTPE])i|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
_PARTS = re.compile(_GRAMMAR)
_BINARY = "KMGTPE"
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class Quantity(int):
    """A number of bytes, as it came in a body."""

    #: What OpenAPI documents say of it.
    SCHEMA: ClassVar[dict[str, Any]] = {
        "description": "A quantity of bytes, as Kubernetes writes them: 1.5Gi, 500M, 1e3.",
        "anyOf": [
            {"type": "string", "pattern": f"^{_GRAMMAR.replace('([+-]?)', '[+]?', 1)}$", "maxLength": _LONGEST},
            {"type": "number", "minimum": 0},
        ],
        "examples": ["1.5Gi"],
    }

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return what was sent. Raises ValueError."""
        return cls(parse(value))


def parse(value: object) -> int:
    """Return a quantity in bytes: rounded up to whole ones, and no more than :data:`MOST`.

    Raises ValueError for what is no quantity, or less than 0.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a quantity like 1.5Gi, got {type(value).__name__}")
    text = str(value)
    parts = _PARTS.fullmatch(text) if len(text) <= _LONGEST else None
    if parts is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity: expected a number like 1.5Gi, 500M or 1e3")
    sign, whole, fraction, only_fraction, binary, decimal, exponent = parts.groups()
    fraction = fraction or only_fraction or ""
    digits = int((whole or "") + fraction)
    if sign == "-" and digits:
        raise ValueError(f"{text!r} is less than 0")
    if binary:
        return min(_divided(digits << 10 * (_BINARY.index(binary) + 1), len(fraction)), MOST)
    power = _DECIMAL[decimal] if decimal else int(exponent or 0)
    return _scaled(digits, power - len(fraction))


@functools.lru_cache(maxsize=4096)
def render(size: int) -> str:
    """Return so many bytes the way Kubernetes writes them: in the largest unit of which they are a whole number."""
    for base, units in ((1024, [f"{letter}i" for letter in _BINARY]), (1000, [*"kMGTPE"])):
        unit, left = "", size
        for larger in units:
            if not left or left % base:
                break
            unit, left = larger, left // base
        if unit:
            return f"{left}{unit}"
    return str(size)


def _scaled(digits: int, power: int) -> int:
    if not digits:
        return 0
    if power <= 0:
        # Beyond its digits it is less than a byte, which makes one.
        return min(_divided(digits, min(-power, _LONGEST)), MOST)
    return MOST if power > len(str(MOST)) else min(digits * int(10**power), MOST)


def _divided(digits: int, places: int) -> int:
    return -(-digits // int(10**places))
