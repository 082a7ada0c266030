# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pymysql
import pytest

from tonnage.ledger.db import db_errors


def mysql_error(number: int, sqlstate: str) -> Exception:
    """Return the exception that PyMySQL makes of the server's packet."""
    with pytest.raises(pymysql.MySQLError) as caught:
        pymysql.err.raise_mysql_exception(b"\xff" + number.to_bytes(2, "little") + b"#" + sqlstate.encode() + b"text")
    return caught.value


@pytest.mark.parametrize(
    ("number", "sqlstate", "kind"),
    [
        (1047, "08S01", db_errors.is_read_only),
        (1290, "HY000", db_errors.is_read_only),
        (1180, "HY000", db_errors.is_away),
        (1927, "70100", db_errors.is_away),
        (1205, "HY000", db_errors.is_collision),
        (1213, "40001", db_errors.is_collision),
        (1317, "70100", db_errors.is_collision),
    ],
)
def test_errors_of_a_mysql_server_are_recognised_by_their_number(
    number: int, sqlstate: str, kind: Callable[[BaseException], bool]
) -> None:
    error = mysql_error(number, sqlstate)
    assert kind(error)
    assert db_errors.is_transient(error)
