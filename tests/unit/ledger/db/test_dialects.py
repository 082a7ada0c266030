# SPDX-License-Identifier: Apache-2.0
"""The address of a database, which is shown and stored without secrets."""

import pytest
import sqlalchemy as sa

from tonnage.ledger.db import dialects


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql+psycopg://tonnage:SECRET@db1/ledger", "postgresql+psycopg://tonnage:***@db1/ledger"),
        (
            "postgresql+psycopg:///ledger?host=db1&host=db2&user=tonnage&password=SECRET&sslpassword=SECRET",
            "postgresql+psycopg:///ledger?host=db1&host=db2",
        ),
        (
            "mysql+pymysql://tonnage@/ledger?unix_socket=/run/mysqld.sock&passwd=SECRET",
            "mysql+pymysql://tonnage@/ledger?unix_socket=/run/mysqld.sock",
        ),
        ("sqlite:////var/lib/tonnage.sqlite", "sqlite:////var/lib/tonnage.sqlite"),
    ],
)
def test_an_address_shows_no_password(url: str, address: str) -> None:
    shown = dialects.public_address(sa.make_url(url))
    assert shown.replace("%2F", "/") == address
