# SPDX-License-Identifier: Apache-2.0
"""Lists of pools as JSON text, from a scheduler through the API to the REST client.

Ten thousand pools in detail are megabytes, and the API passes their JSON on without reading it. So a scheduler encodes
the pools and keeps the text of a backend until one of its pools changes; the API keeps the unpacked text as long as it
receives the same. The time of a backend's last report changes all the time: it travels beside the text, which has a gap
for it in each pool.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tonnage.capacity import errors
from tonnage.rpc import packed_reports
from tonnage.rpc.messages import PoolListText

#: The key whose value is the gap.
GAP = "updated"

#: The value in the gap. JSON never contains it: texts have this character as an escape.
_MARK = b"\0"

_RAW_MARK = msgspec.Raw(_MARK)


def with_gap(capabilities: dict[str, Any], last_report: Mapping[str, Any]) -> dict[str, Any]:
    """Return capabilities with a gap for the fields in ``last_report``, which has the key :data:`GAP`."""
    return {key: value for key, value in capabilities.items() if key not in last_report} | {GAP: _RAW_MARK}


def last_report_text(last_report: Mapping[str, Any]) -> str:
    """Return the text that fills the gap."""
    rest = {key: value for key, value in last_report.items() if key != GAP}
    return f"{msgspec.json.encode(last_report[GAP]).decode()},{msgspec.json.encode(rest).decode()[1:-1]}"


class PoolListReader:
    """Assembles answers to lists of pools. Thread-safe."""

    def __init__(self) -> None:
        self._unpacked: dict[str, list[bytes]] = {}

    def parts(self, answer: Sequence[PoolListText]) -> list[bytes]:
        """Return the pools as JSON: parts of a list without its brackets and commas.

        Raises :class:`~tonnage.capacity.errors.Unavailable` for a malformed answer.
        """
        before = self._unpacked
        unpacked = {part.text: before.get(part.text) or _unpacked(part.text) for part in answer}
        self._unpacked = unpacked
        return [part.last_report.encode().join(unpacked[part.text]) for part in answer]


def _unpacked(text: str) -> list[bytes]:
    try:
        return packed_reports.unpacked(text).split(_MARK)
    except (ValueError, zlib.error) as error:
        raise errors.Unavailable(f"the scheduler's list of pools cannot be read: {error}") from None
