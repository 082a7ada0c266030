# SPDX-License-Identifier: Apache-2.0
"""Hours of the day in which volumes are moved, such as ``22-06``."""

import datetime
import re
from dataclasses import dataclass
from typing import ClassVar

_PATTERN = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours from ``begin`` up to ``end``, from 0 to 23, over midnight if ``end`` is less; all hours if equal."""

    #: The form of a text in words.
    EXPECTED: ClassVar[str] = "two hours of the day such as 22-06, the first from 0 to 23 and the second from 0 to 24"

    begin: int = 0
    end: int = 0

    @classmethod
    def parse(cls, text: str) -> "Hours":
        """Return the hours of a text such as ``22-06`` or ``9-17``; an empty one means all hours.

        Raises :class:`ValueError`.
        """
        if not text:
            return cls()
        match = _PATTERN.fullmatch(text)
        begin, end = (int(match[1]), int(match[2])) if match else (24, 24)
        if begin > 23 or end > 24:
            raise ValueError(f"{text!r}: expected {cls.EXPECTED}")
        return cls(begin, end % 24)

    @classmethod
    def is_valid(cls, text: str) -> bool:
        """Return whether a text is one of hours."""
        try:
            cls.parse(text)
        except ValueError:
            return False
        return True

    def is_open(self, now: datetime.datetime) -> bool:
        """Return whether a time is within the hours."""
        if self.begin <= self.end:
            return self.begin == self.end or self.begin <= now.hour < self.end
        return now.hour >= self.begin or now.hour < self.end

    def seconds_open(self, now: datetime.datetime) -> float | None:
        """Return the seconds since the hours began, 0 outside them; None if they never end."""
        if self.begin == self.end:
            return None
        if not self.is_open(now):
            return 0.0
        began = now.replace(hour=self.begin, minute=0, second=0, microsecond=0)
        if began > now:
            began -= datetime.timedelta(days=1)
        return (now - began).total_seconds()
