# SPDX-License-Identifier: Apache-2.0
"""Mappings of text that clients put into filters, such as ``{'key': 'value'}``."""

import ast
import re

from tonnage.capacity import errors

_TEXT = r"""('[^'"\\\n\r]*'|"[^"\\\n\r]*")"""

#: How they are spelled: as Python does, without escapes.
PATTERN = rf"^\{{({_TEXT}: ?{_TEXT}(, ?{_TEXT}: ?{_TEXT})*)?\}}$"

_SHOWN = 64


def parse(spelled: str, what: str) -> dict[str, str]:
    """Return a mapping. Raises :class:`~tonnage.capacity.errors.InvalidInput` naming ``what`` for anything else."""
    if not re.fullmatch(PATTERN, spelled):
        raise errors.InvalidInput(f"{what} is {spelled[:_SHOWN]!r}: expected {{'key': 'value'}}")
    found: dict[str, str] = ast.literal_eval(spelled)
    return found
