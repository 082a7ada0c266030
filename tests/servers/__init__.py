# SPDX-License-Identifier: Apache-2.0
"""Private PostgreSQL, MariaDB and RabbitMQ servers, made from the installed packages.

Each lives in a folder of its own below the temporary folder, listens on a Unix socket or on a free port of the loopback
interface, and is ended by its process id. :mod:`tests.servers.fixtures` hands them to tests.
"""

from tests.servers.base import Server
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

__all__ = ["MariaDB", "PostgreSQL", "RabbitMQ", "Server"]
