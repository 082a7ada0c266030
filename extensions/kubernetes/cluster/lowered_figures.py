# SPDX-License-Identifier: Apache-2.0
"""Questions to external-provisioner: a figure that is lowered by a byte, which it replaces.

external-provisioner writes an object only if the plug-in's answer differs from the figure in it. So a lowered figure is
written again after the next question, whatever the answer is. The object shows itself in an annotation that its figure
has been lowered, and readers use the figure and the resource version from before.
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: The annotation: the resource version before, and the lowered figure in bytes.
ANNOTATION = "tonnage/lowered-figure"


@dataclass(frozen=True, slots=True)
class LoweredFigure:
    """A lowered figure: ``version`` is the resource version of the object before, ``capacity`` bytes before."""

    version: int
    capacity: int

    @property
    def lowered(self) -> int:
        """The lowered figure, in bytes."""
        return self.capacity - 1

    @property
    def annotations(self) -> dict[str, str]:
        """The annotation of the object."""
        return {ANNOTATION: f"{self.version} {self.lowered}"}


def find(annotations: Mapping[str, str] | None, capacity: int | None) -> LoweredFigure | None:
    """Return the lowered figure of an object with this capacity, None if its provisioner has written it since."""
    version, _, lowered = (annotations or {}).get(ANNOTATION, "").partition(" ")
    if not (version.isdecimal() and lowered.isdecimal()) or int(lowered) != capacity:
        return None
    return LoweredFigure(int(version), int(lowered) + 1)
