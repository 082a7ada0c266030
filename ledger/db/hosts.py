# SPDX-License-Identifier: Apache-2.0
"""The order in which the hosts of a database URL are tried."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa


class HostOrder:
    """The order in which the hosts of one URL are tried. Threads may share it.

    libpq waits for each silent host before it tries the next one. So the host that has taken writes before is tried
    first, and a host moves to the end if no connection was opened.
    """

    def __init__(self) -> None:
        self._first = 0

    def connect(self, dialect: sa.Dialect, args: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """Open a connection with the driver's ``parameters``, of which ``host`` and ``port`` may be lists."""
        hosts = _hosts(parameters)
        if len(hosts) < 2:
            return dialect.connect(*args, **parameters)
        first = self._first
        order = hosts[first:] + hosts[:first]
        names, ports = ",".join(name for name, _ in order), ",".join(port for _, port in order)
        try:
            connection = dialect.connect(*args, **{**parameters, "host": names, "port": ports})
        except Exception:
            self._first = (first + 1) % len(hosts)
            raise
        reached = (connection.info.host, str(connection.info.port))
        self._first = next(
            (number for number, (name, port) in enumerate(hosts) if (name, port or "5432") == reached), 0
        )
        return connection


def _hosts(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    names, ports = (str(parameters.get(name) or "").split(",") for name in ("host", "port"))
    if len(ports) == 1:
        ports *= len(names)
    return list(zip(names, ports, strict=False)) if len(names) == len(ports) else []
