# SPDX-License-Identifier: Apache-2.0
"""Requests that describe a volume for its row, from the API over the message bus to the ledger."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request that takes effect at most once. ``request_id`` is its idempotency key.

    ``asked_at`` is a time by the ledger's clock, at most some minutes before the request was sent; None if the sender
    does not know one. The request does not take effect long after it.
    """

    request_id: str
    asked_at: datetime.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedVolume(KeyedRequest):
    """A request for a volume that the ledger does not have. ``volume_type`` is a type's id or name."""

    volume_id: str
    project_id: str
    user_id: str = ""
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVolume(DescribedVolume):
    """A request for a new volume.

    With ``source_volume_id`` the volume is a clone of that one, with ``group_id`` it is placed on the group's backend.
    """

    size_gb: int
    availability_zone: str | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    source_volume_id: str | None = None
    group_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManageVolume(DescribedVolume):
    """A request to adopt the volume named ``reference`` on the storage, in a pool ``host@backend#pool``."""

    pool: str
    reference: str
