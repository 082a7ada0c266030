# SPDX-License-Identifier: Apache-2.0
"""The bounds of all numbers in a configuration, beyond which libraries and databases fail."""

#: The largest number that an option takes: that of a signed integer of 32 bits, as in most libraries.
LARGEST = 2**31 - 1

#: The most seconds between two actions, or until a wait ends: a week. Some libraries wait for at most 24 days.
LONGEST_WAIT = 7 * 24 * 3600


class OutOfBounds(ValueError):
    """A number is not finite, or too large."""


def check(value: object) -> None:
    """Raise :class:`OutOfBounds` for a number that is not finite, or whose amount is greater than :data:`LARGEST`."""
    if isinstance(value, (int, float)) and not abs(value) <= LARGEST:
        raise OutOfBounds(f"it takes a finite number of at most {LARGEST}")
