# SPDX-License-Identifier: Apache-2.0
"""Volumes that have failed in as many attempts as Cinder allows."""

from collections.abc import Mapping
from typing import Any

from oslo_utils import strutils

from tonnage.capacity.decision import AttemptsExceeded

#: Longest part of an error that is kept, in characters.
_LONGEST = 500


def exceeded(request: str, retry: Mapping[str, Any], most: int) -> AttemptsExceeded | None:
    """Return the refusal of one more attempt, None if Cinder allows it.

    ``request`` describes the volume. ``retry`` are Cinder's filter properties of that name, after the last attempt.
    ``most`` is ``scheduler_max_attempts``; with 1 Cinder counts no attempts.
    """
    if not 1 < most <= int(retry.get("num_attempts", 0)):
        return None
    pools = tuple(retry.get("backends") or retry.get("hosts") or ())
    # The lines of a traceback; the last entry is the error itself, which may have several lines.
    traceback = retry.get("exc") or [""]
    error = strutils.mask_password(" ".join(traceback[-1].split()))
    return AttemptsExceeded(request, pools, error[:_LONGEST])
