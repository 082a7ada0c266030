# SPDX-License-Identifier: Apache-2.0
"""The source of usage that the options name."""

from typing import Any

import pytest

from tests.unit.quotas.test_options import configured
from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.quotas import usage_sources
from tonnage.quotas.external_usage import NO_EXTERNAL_USAGE


def settings(database: Any = None, *, extensions: tuple[str, ...] = (), **values: object) -> Any:
    conf = configured(**values)
    enabled_extensions.register(conf)
    conf.set_override("enabled_extensions", list(extensions))
    return usage_sources.quota_settings(conf, database)


@pytest.mark.parametrize("source", ["counters", "ledger"])
def test_the_ledger_is_a_source_without_any_extension(source: str) -> None:
    assert settings(usage_source=source).external_usage is NO_EXTERNAL_USAGE


def test_the_source_of_an_extension_that_is_not_enabled_is_an_error() -> None:
    with pytest.raises(errors.ConfigurationError, match="add placement to enabled_extensions, which is history"):
        settings(usage_source="placement", extensions=("history",))


def test_an_enabled_extension_is_asked_for_its_source() -> None:
    with pytest.raises(errors.ConfigurationError, match="section \\[placement\\]"):
        settings(usage_source="placement", extensions=("placement",))
