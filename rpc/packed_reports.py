# SPDX-License-Identifier: Apache-2.0
"""Reports with compressed pools: one text, which is short because the pools of a backend are similar.

Every scheduler receives each report, and most schedulers read only its other fields: the text costs hardly anything
until it is unpacked.
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
from tonnage.rpc.messages import MOST_POOLS, BackendReport, Outcome

#: Largest unpacked text in bytes, that of a report of more than 100,000 pools. A longer text is refused.
MAX_BYTES = 256 * 1024 * 1024

#: The fastest level of zlib, with nearly the smallest result.
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
        """Return the report in packed form."""
        return cls(**(_all(report) | {"pools": packed(json.dumps(serialization.pack(report.pools)).encode())}))

    def unpack(self, max_bytes: int = MAX_BYTES) -> BackendReport:
        """Return the report, whose pools have at most ``max_bytes`` bytes.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` if its pools cannot be read, or are too many.
        """
        try:
            pools = _read(unpacked(self.pools, max_bytes))
        except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
            raise errors.InvalidInput(
                f"malformed report of {self.backend}: its pools cannot be read: {error}"
            ) from None
        if len(pools) > MOST_POOLS:
            raise errors.InvalidInput(f"the report of {self.backend} has {too_many_pools(len(pools))}")
        return BackendReport(**(_all(self) | {"pools": pools}))


def too_many_pools(number: int) -> str:
    """Return the end of a sentence about a backend with more than :data:`~tonnage.rpc.messages.MOST_POOLS` pools."""
    return f"{number} pools: a backend has at most {MOST_POOLS}, so divide them among several backends"


def packed(text: bytes) -> str:
    """Return a text compressed by zlib, in base64."""
    return base64.b64encode(zlib.compress(text, _LEVEL)).decode()


def unpacked(text: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the text that was packed. Raises ValueError or zlib.error for one that is malformed or too long."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(base64.b64decode(text, validate=True), max_bytes)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or longer than {max_bytes} bytes")
    return content


def _read(text: bytes) -> list[dict[str, Any]]:
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        # The decoder is strict, and several times as fast. The scheduler judges nan and infinity later.
        return serialization.unpack(json.loads(text), list[dict[str, Any]])


def _all(message: BackendReport | PackedReport) -> dict[str, Any]:
    return {attribute.name: getattr(message, attribute.name) for attribute in fields(message)}
