# SPDX-License-Identifier: Apache-2.0
"""Mappings of text that clients put into filters, such as ``{'key': 'value'}``."""

import ast
import re

from tonnage.capacity import errors

#: Most pairs in one: each is a condition of its own, and databases refuse statements with very many.
MOST = 64

_TEXT = r"""('[^'"\\\n\r]*'|"[^"\\\n\r]*")"""

#: How they are spelled: as Python does, without escapes.
PATTERN = rf"^\{{({_TEXT}: ?{_TEXT}(, ?{_TEXT}: ?{_TEXT}){{0,{MOST - 1}}})?\}}$"

_SHOWN = 64


def parse(spelled: str, what: str) -> dict[str, str]:
    """Return a mapping. Raises :class:`~tonnage.capacity.errors.InvalidInput` naming ``what`` for anything else."""
    if not re.fullmatch(PATTERN, spelled):
        raise errors.InvalidInput(f"{what} is {spelled[:_SHOWN]!r}: expected {{'key': 'value'}}, at most {MOST} pairs")
    found: dict[str, str] = ast.literal_eval(spelled)
    return found
