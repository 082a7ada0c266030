# SPDX-License-Identifier: Apache-2.0
"""The findings of the shadow about Cinder's capacity."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

#: The identity of a finding: category, subject, code.
Key = tuple[str, str, str]


class Category(enum.StrEnum):
    """The categories of findings."""

    #: A pool holds more than its limit, and commands of Cinder's scheduler made it so.
    OVER_COMMITMENT = "over_commitment"
    #: ``allocated_capacity_gb`` of a report is not the sum of the volumes.
    ALLOCATED_DRIFT = "allocated_drift"
    #: A counter of Cinder's quotas is not what the rows have.
    QUOTA_DRIFT = "quota_drift"
    #: A backend is up and does not report.
    STALE_REPORT = "stale_report"
    #: A report breaks a definition of its fields, or has a pool that cannot be used.
    WRONG_REPORT = "wrong_report"
    #: The shadow missed messages or rows, and judges no decision until it has read all rows again.
    GAP = "gap"


class Cause(enum.StrEnum):
    """The causes of gaps in the watch."""

    #: The watch began.
    START = "start"
    #: The connection to the bus was lost.
    CONNECTION = "connection"
    #: The queue was full: the shadow was slower than the bus, or frozen.
    QUEUE = "queue"
    #: Cinder's database could not be read.
    DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Gap:
    """A loss of messages or of rows. ``dropped`` is the least number of dropped messages, 0 if it is unknown."""

    cause: Cause
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding. ``subject`` is the pool or the backend, ``code`` tells findings of one category and subject apart.

    ``numbers`` are the figures in ``text``, in GiB. ``volumes`` are the ids of the volumes whose commands caused it.
    """

    category: Category
    subject: str
    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """The finding's identity."""
        return self.category.value, self.subject, self.code
