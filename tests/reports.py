# SPDX-License-Identifier: Apache-2.0
"""Reports of tests that can be sent from the processes that run them, whatever text they quote."""

from typing import Any


def encodable(value: Any) -> Any:
    r"""Return a report with ``\udc80`` written out wherever a text has half of a surrogate pair.

    No encoding takes those. A test of any text that fails, or logs it and fails, would bring down the whole run and not
    be heard of.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [encodable(each) for each in value]
    if isinstance(value, tuple):
        return tuple(encodable(each) for each in value)
    return value
