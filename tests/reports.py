# SPDX-License-Identifier: Apache-2.0
"""Conversion of test reports with invalid Unicode, so that worker processes can send them."""

from typing import Any


def encodable(value: Any) -> Any:
    r"""Return a report with each lone surrogate escaped, such as ``\udc80``.

    No encoding accepts lone surrogates. Without this, a failed test that quotes or logs one would end the whole run.
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
