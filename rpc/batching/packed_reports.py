# SPDX-License-Identifier: Apache-2.0
"""Many pools as they travel: one compressed text, a small part of the traffic, as pools of a backend are alike.

Every scheduler gets each report, and most look only at what it says of itself: until it is opened the text costs hardly
anything.
"""

import base64
import binascii
import json
import zlib
from dataclasses import dataclass, field, fields
from typing import Any, Self

import msgspec

from tonnage.capacity import errors
from tonnage.rpc import serialization
from tonnage.rpc.messages import BackendReport, Outcome

#: Of the text, in bytes: a report of more than 100,000 pools. What opens to more is not opened to its end.
MOST = 256 * 1024 * 1024

#: Fast, and nearly as small as the best.
_LEVEL = 1

_DECODER = msgspec.json.Decoder(list[dict[str, Any]])


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedReport:
    """A :class:`~tonnage.rpc.messages.BackendReport`: ``pools`` is JSON, compressed by zlib, in base64."""

    backend: str
    epoch: int
    seq: int
    covers: int
    pools: str
    ended: list[Outcome] = field(default_factory=list)
    in_hand: list[str] = field(default_factory=list)
    age: float = 0.0
    stamps: dict[str, int] = field(default_factory=dict)
    supports_auto_ratio: bool | None = None

    @classmethod
    def of(cls, report: BackendReport) -> Self:
        """Return that report packed."""
        return cls(**(_all(report) | {"pools": packed(json.dumps(serialization.pack(report.pools)).encode())}))

    def opened(self) -> BackendReport:
        """Return the report. Raises :class:`~tonnage.capacity.errors.InvalidInput` if its pools cannot be read."""
        try:
            pools = _read(unpacked(self.pools))
        except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
            raise errors.InvalidInput(
                f"malformed report of {self.backend}: its pools cannot be read: {error}"
            ) from None
        return BackendReport(**(_all(self) | {"pools": pools}))


def packed(text: bytes) -> str:
    """Return a text compressed by zlib, in base64."""
    return base64.b64encode(zlib.compress(text, _LEVEL)).decode()


def unpacked(text: str) -> bytes:
    """Return what was packed. Raises ValueError or zlib.error for what was not."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(base64.b64decode(text, validate=True), MOST)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or longer than {MOST} bytes")
    return found


def _read(text: bytes) -> list[dict[str, Any]]:
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        # That is strict, and several times as fast. What else there is, nan and infinity say, is for others to judge.
        return serialization.unpack(json.loads(text), list[dict[str, Any]])


def _all(message: BackendReport | PackedReport) -> dict[str, Any]:
    return {each.name: getattr(message, each.name) for each in fields(message)}
