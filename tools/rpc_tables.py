#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of RPC methods that docs/rpc.rst includes, from the rows of the contract.

Run it with the Python of the test environment after a row has changed: ``.venv/bin/python tools/rpc_tables.py``.
"""

import pathlib
import sys
import typing
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES
from tonnage.rpc import contract
from tonnage.rpc.contract import Method

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"

_AGENTS_CALL = (contract.HELLO, contract.LISTING, contract.REPORT, contract.NOTICE, contract.STAMPS, contract.OUTCOMES)

#: The methods of each table, by the file's name.
TABLES: Mapping[str, Iterable[Method[Any, Any]]] = {
    "rpc-scheduler-methods.inc": (
        *_AGENTS_CALL,
        contract.REQUEST_BATCH,
        *contract.BATCHED_METHODS,
        *(method for method in contract.SCHEDULER_METHODS if method not in (*_AGENTS_CALL, contract.REQUEST_BATCH)),
        FIT_NODES,
    ),
    "rpc-agent-methods.inc": contract.AGENT_METHODS,
}

_HEADER = """\
.. This file is written by tools/rpc_tables.py.

.. list-table::
   :header-rows: 1

   * - method
     - message
     - answer
     - sent as
     - meaning
"""


def table(methods: Iterable[Method[Any, Any]]) -> str:
    """Return the table of methods in reStructuredText."""
    return _HEADER + "".join(_row(method) for method in methods)


def _row(method: Method[Any, Any]) -> str:
    delivery = f"{method.delivery}{', with a key' if method.keyed else ''}"
    cells = (f"``{method.name}``", _type_name(method.message), _type_name(method.answer), delivery, method.meaning)
    return f"   * - {cells[0]}\n" + "".join(f"     - {cell}".rstrip() + "\n" for cell in cells[1:])


def _type_name(message_type: Any) -> str:
    if message_type is NoneType:
        return ""
    if typing.get_origin(message_type) is dict:
        return "mapping"
    if typing.get_origin(message_type) is list:
        return f"[{_type_name(typing.get_args(message_type)[0])}]"
    return "[answer]" if message_type is object else str(message_type.__name__)


def main() -> int:
    """Write the files and return an exit status."""
    for name, methods in TABLES.items():
        (DOCS / name).write_text(table(methods), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
