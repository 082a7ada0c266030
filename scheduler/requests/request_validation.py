# SPDX-License-Identifier: Apache-2.0
"""Validation of requests: values that the ledger cannot store."""

import uuid

from tonnage.capacity import errors, units
from tonnage.rpc.handlers import LONGEST_REQUEST_ID
from tonnage.rpc.messages import CreateVolume


def check_new_volume(message: CreateVolume) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for values that the ledger cannot store."""
    if not 1 <= message.size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(f"size is {message.size_gb}: it takes 1 to {units.MAX_SIZE_GB} GiB")
    check_uuid(message.volume_id)
    check_length("request_id", message.request_id, LONGEST_REQUEST_ID)
    for field_name in ("project_id", "user_id", "name", "description", "availability_zone"):
        check_length(field_name, getattr(message, field_name) or "", 255)


def check_uuid(volume_id: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for anything but a UUID in its usual form."""
    try:
        plain = str(uuid.UUID(volume_id)) == volume_id
    except ValueError:
        plain = False
    if not plain:
        raise errors.InvalidInput(f"volume_id is {volume_id!r}: it takes a UUID in its usual form")


def check_length(name: str, value: str, most: int) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for text that is too long or cannot be stored."""
    if len(value) > most or "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise errors.InvalidInput(
            f"{name} is {value[:40]!r}...: it takes at most {most} characters of Unicode text, none of them NUL"
        )
