# SPDX-License-Identifier: Apache-2.0
"""Pools as text, from the scheduler that knows them to the client of the REST API.

Ten thousand pools in detail are megabytes, and who passes them on wants their JSON and nothing of what it says. So a
scheduler spells them, and keeps what it has spelled of a backend until something of that changes; the API keeps what it
has unpacked for as long as it is sent the same again. What changes all the time, how long ago a backend was heard, is
sent beside the text, which has a gap for it in each pool.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tonnage.capacity import errors
from tonnage.rpc.batching import packed_reports
from tonnage.rpc.messages import SpelledPools

#: What is put between braces.
GAP = "updated"

#: No JSON has it: text has this character as an escape, and there is none elsewhere.
_MARK = b"\0"

_RAW_MARK = msgspec.Raw(_MARK)


def with_gap(capabilities: dict[str, Any], heard: Mapping[str, Any]) -> dict[str, Any]:
    """Return capabilities with a gap for what is said in ``heard``, which has the key :data:`GAP`."""
    return {key: value for key, value in capabilities.items() if key not in heard} | {GAP: _RAW_MARK}


def heard_text(heard: Mapping[str, Any]) -> str:
    """Return what fills the gap."""
    rest = {key: value for key, value in heard.items() if key != GAP}
    return f"{msgspec.json.encode(heard[GAP]).decode()},{msgspec.json.encode(rest).decode()[1:-1]}"


class Reader:
    """Puts answers together. Safe to use from many threads."""

    def __init__(self) -> None:
        self._opened: dict[str, list[bytes]] = {}

    def parts(self, answer: Sequence[SpelledPools]) -> list[bytes]:
        """Return the pools as JSON: parts of a list, which belong between brackets, with commas between them.

        Raises :class:`~tonnage.capacity.errors.Unavailable` for what cannot be read.
        """
        before = self._opened
        opened = {part.text: before.get(part.text) or _opened(part.text) for part in answer}
        self._opened = opened
        return [part.heard.encode().join(opened[part.text]) for part in answer]


def _opened(text: str) -> list[bytes]:
    try:
        return packed_reports.unpacked(text).split(_MARK)
    except (ValueError, zlib.error) as error:
        raise errors.Unavailable(f"what the scheduler says of its pools cannot be read: {error}") from None
