# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of Cinder's quotas."""

from collections.abc import Iterator

import pytest

from tests.unit.extensions.cinder.quota.quota_rows import QuotaRows


@pytest.fixture
def rows(database_url: str) -> Iterator[QuotaRows]:
    """The rows of a Cinder on each database."""
    found = QuotaRows(database_url)
    yield found
    found.close()
