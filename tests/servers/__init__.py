# SPDX-License-Identifier: Apache-2.0
"""Private PostgreSQL, MariaDB and RabbitMQ servers, which run from the installed packages.

Each server has its own temporary folder, listens on a Unix socket or a free port of the loopback interface, and is
ended by its process id. :mod:`tests.servers.fixtures` has fixtures for them.
"""

from tests.servers.base import Server
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

__all__ = ["MariaDB", "PostgreSQL", "RabbitMQ", "Server"]
