# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.placement import options
from tonnage.quotas import options as quota_options

ACCOUNT = {"auth_type": "admin_token", "endpoint": "http://127.0.0.1:1", "token": "t"}


def read_config(folder: pathlib.Path, section: dict[str, str] | None, quota: str = "") -> cfg.ConfigOpts:
    file = folder / "tonnage.conf"
    lines = [] if section is None else ["[placement]", *(f"{key} = {value}" for key, value in section.items())]
    file.write_text("\n".join(["[quota]", quota, *lines]))
    conf = cfg.ConfigOpts()
    quota_options.register(conf)
    conf(["--config-file", str(file)])
    return conf


def test_the_options_are_those_of_nova(tmp_path: pathlib.Path) -> None:
    conf = read_config(tmp_path, ACCOUNT | {"region_name": "north", "connect_retries": "2"})
    found = options.from_conf(conf)
    assert found is not None
    assert found.timeout == 5
    adapter = found._adapter
    assert (adapter.service_type, adapter.interface, adapter.region_name) == (
        "placement",
        ["internal", "public"],
        "north",
    )
    assert adapter.connect_retries == 2


def test_without_an_account_there_is_no_client(tmp_path: pathlib.Path) -> None:
    assert options.from_conf(read_config(tmp_path, None)) is None
    assert options.from_conf(read_config(tmp_path, {"region_name": "north"})) is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"auth_type": "sorcery"}, "sorcery"),
        ({"timeout": "0"}, "timeout is 0"),
        ({"valid_interfaces": "internal", "timeout": "soon"}, "soon"),
    ],
)
def test_an_unusable_section_is_refused(tmp_path: pathlib.Path, more: dict[str, str], problem: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=problem):
        options.from_conf(read_config(tmp_path, ACCOUNT | more))
