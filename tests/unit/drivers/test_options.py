# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from oslo_config import cfg

from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import options


def section(folder: Path, text: str) -> options.Section:
    return options.Section(configured.conf(folder, text), "ssd", options.BACKEND_OPTS)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), ("1.0", 1.0), ("20", 20.0), ("2.5", 2.5), ("auto", "auto"), ("AUTO", "auto")]
)
def test_ratios(tmp_path: Path, text: str, value: float | str) -> None:
    assert section(tmp_path, f"[ssd]\nmax_over_subscription_ratio = {text}").max_over_subscription_ratio == value


@pytest.mark.parametrize("text", ["0.99", "0", "-1", "nan", "inf", "automatic", "1,5", ""])
def test_invalid_ratios_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[ssd\] max_over_subscription_ratio: .*auto"):
        section(tmp_path, f"[ssd]\nmax_over_subscription_ratio = {text}")


@pytest.mark.parametrize("text", ["-1", "101", "ten", "1.5"])
def test_invalid_reserved_percentages_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[ssd\] reserved_percentage: "):
        section(tmp_path, f"[ssd]\nreserved_percentage = {text}")


@pytest.mark.parametrize("text", ["ssd", "[1]", "{", "1"])
def test_invalid_capabilities_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[ssd\] extra_capabilities: .*JSON"):
        section(tmp_path, f"[ssd]\nextra_capabilities = {text}")


def test_defaults(tmp_path: Path) -> None:
    values = section(tmp_path, "")
    assert values.volume_driver is None
    assert values.max_over_subscription_ratio is None
    assert options.capabilities(values, "host@ssd") == {
        "volume_backend_name": "ssd",
        "reserved_percentage": 0,
        "max_over_subscription_ratio": None,
    }


def test_common_capabilities(tmp_path: Path) -> None:
    values = section(
        tmp_path,
        """
        [ssd]
        volume_backend_name = fast
        reserved_percentage = 10
        max_over_subscription_ratio = auto
        extra_capabilities = {"media": "ssd", "reserved_percentage": 0}
        filter_function = volume.size < 500 and stats.free_capacity_gb > 10
        min_free_capacity_extend_percentage = 2.5
        goodness_function = capabilities.media == ssd ? 100 : 50
        """,
    )
    assert options.capabilities(values, "host@ssd") == {
        "media": "ssd",
        "volume_backend_name": "fast",
        "reserved_percentage": 10,
        "max_over_subscription_ratio": "auto",
        "filter_function": "volume.size < 500 and stats.free_capacity_gb > 10",
        "min_free_capacity_extend_percentage": 2.5,
        "goodness_function": "capabilities.media == ssd ? 100 : 50",
    }


def test_a_pool_inherits_unset_options_from_its_backend(tmp_path: Path) -> None:
    values = section(
        tmp_path,
        """
        [ssd]
        volume_backend_name = fast
        reserved_percentage = 10
        max_over_subscription_ratio = 3
        [ssd:gold]
        reserved_percentage = 0
        """,
    )
    gold, silver = (values.pool(name, options.POOL_OPTS) for name in ("gold", "silver"))
    assert (gold.reserved_percentage, gold.max_over_subscription_ratio) == (0, 3.0)
    assert (silver.reserved_percentage, silver.max_over_subscription_ratio) == (10, 3.0)
    assert gold.volume_backend_name == "fast"
    assert gold.sets("reserved_percentage")
    assert not silver.sets("reserved_percentage")


def test_a_bad_value_of_a_pool_names_its_section(tmp_path: Path) -> None:
    values = section(tmp_path, "[ssd:gold]\nreserved_percentage = 200")
    with pytest.raises(errors.ConfigurationError, match=r"\[ssd:gold\] reserved_percentage"):
        values.pool("gold", options.POOL_OPTS)


def test_an_option_that_clashes_with_a_common_one_is_refused(tmp_path: Path) -> None:
    values = section(tmp_path, "")
    with pytest.raises(errors.ConfigurationError, match=r"\[ssd\] reserved_percentage"):
        values.register([cfg.StrOpt("reserved_percentage")])


def test_an_unknown_option_is_an_attribute_error(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"section \[ssd\] has no option colour"):
        _ = section(tmp_path, "").colour


def test_kinds() -> None:
    assert options.kinds("thin") == {Provisioning.THIN}
    assert options.kinds("thick") == {Provisioning.THICK}
    assert options.kinds("both") == {Provisioning.THIN, Provisioning.THICK}
