# SPDX-License-Identifier: Apache-2.0
"""The choices of an administrator for the moves of a plan, which stay in its row."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: The name of Cinder as a mover in the rows of plans.
MOVER = "cinder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices for the moves of a plan.

    ``cloud`` is the address of Cinder's API. With ``attached`` volumes in use move too, by Nova. ``retype`` maps volume
    types to others that volumes get by their move. With ``lock`` a volume is in maintenance while it moves.
    """

    cloud: str
    attached: bool = False
    retype: Mapping[str, str] = field(default_factory=dict)
    lock: bool = True

    def as_options(self) -> dict[str, Any]:
        """Return the choices as the options of a plan."""
        return asdict(self)


def read(options: Mapping[str, Any]) -> Choices:
    """Return the choices of a plan. One of a later release is left out."""
    return Choices(**{name: value for name, value in options.items() if name in Choices.__dataclass_fields__})
