# SPDX-License-Identifier: Apache-2.0
"""Private PostgreSQL, MariaDB and RabbitMQ servers, and clusters of them, which run from the installed packages.

Each server has its own temporary folder, listens on a Unix socket or a free port of the loopback interface, and is
ended by its process id. :mod:`tests.servers.fixtures` has fixtures for them.
"""

from tests.servers.base import Server
from tests.servers.cinder import Cinder, Shape
from tests.servers.galera import Galera
from tests.servers.mariadb import MariaDB
from tests.servers.patroni import Patroni
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.rabbitmq_cluster import RabbitMQCluster

__all__ = [
    "Cinder",
    "Galera",
    "MariaDB",
    "Patroni",
    "PostgreSQL",
    "RabbitMQ",
    "RabbitMQCluster",
    "Server",
    "Shape",
]
