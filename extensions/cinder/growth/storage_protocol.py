# SPDX-License-Identifier: Apache-2.0
"""The pools that an encrypted volume of Cinder may move to."""

from collections.abc import Iterable
from typing import Any


def unsuitable(protocol: Any, other_protocol: Any, *, is_encrypted: bool) -> bool:
    """Return whether a volume cannot move from a pool to another one, by their ``storage_protocol``.

    Drivers of other storage may keep the header of the encryption in another place, so an encrypted volume stays on
    storage of its own sort. A pool may have several names of its protocol. One without any suits no encrypted volume.
    """
    return is_encrypted and not _names(protocol) & _names(other_protocol)


def obstacle(protocol: Any) -> str:
    """Return the reason why an encrypted volume finds no pool to move to."""
    names = ", ".join(sorted(_names(protocol))) or "none"
    return f"it is encrypted, and no other pool with room has its storage_protocol ({names})"


def _names(protocol: Any) -> set[str]:
    names: Iterable[Any] = [protocol] if isinstance(protocol, str) else protocol or ()
    return {name.casefold() for name in names if isinstance(name, str)}
