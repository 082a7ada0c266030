# SPDX-License-Identifier: Apache-2.0
"""The snippets of the page for OpenStack-Ansible, Kolla-Ansible and openstack-helm are valid, and name real options."""

import configparser
import pathlib
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
import yaml

from tonnage.extensions.cinder.daemons import cinder_scheduler
from tonnage.extensions.cinder.scheduler import ledger_options
from tonnage.ledger.db import options as database_options

_PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "cinder-deployers.rst").read_text(encoding="utf-8")

#: The options of ``tonnage.conf`` that the commands need; ``transport_url`` is one of oslo.messaging.
_COMMANDS = {"DEFAULT": {"transport_url"}, "database": {option.dest for option in database_options.OPTIONS}}


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    found = re.findall(rf"^( *)\.\. code-block:: {language}\n\n((?:\1   .*\n|\n)+)", _PAGE, re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def ini(text: str) -> dict[str, dict[str, str]]:
    """Return the sections of a configuration, also ``[DEFAULT]``."""
    parser = configparser.ConfigParser(interpolation=None, default_section="none")
    parser.read_string(text)
    return {name: dict(section) for name, section in parser.items() if name != "none"}


def documents() -> list[dict[str, Any]]:
    """Return the blocks in YAML."""
    return [yaml.safe_load(block) for block in blocks("yaml")]


def values(key: str) -> Iterable[Any]:
    """Return the values that the documents have for a key at their top."""
    return (document[key] for document in documents() if key in document)


def check_scheduler(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Check that a configuration makes Tonnage the scheduler, and names a ledger."""
    assert sections.keys() == {"DEFAULT", ledger_options.GROUP.name}
    assert sections["DEFAULT"] == cinder_scheduler.OPTIONS
    section = sections[ledger_options.GROUP.name]
    assert section.keys() <= {option.dest for option in ledger_options.OPTIONS}
    # A variable of a deployment project stands for a port in one of them.
    url = sa.make_url(section["connection"].replace("{{ database_port }}", "3306"))
    assert (url.drivername, url.username, url.database) == ("mysql+pymysql", "tonnage", "tonnage")


def check_commands(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Check that a configuration is one for ``tonnage`` and ``tonnage-manage``."""
    assert {name: section.keys() <= _COMMANDS[name] for name, section in sections.items()} == dict.fromkeys(
        _COMMANDS, True
    )
    sa.make_url(sections["database"]["connection"])


def test_the_blocks_in_ini_are_configurations() -> None:
    commands, kolla = (ini(block) for block in blocks("ini"))
    check_commands(commands)
    check_scheduler(kolla)


def test_the_overrides_of_openstack_ansible_make_tonnage_the_scheduler() -> None:
    [overrides] = values("cinder_cinder_conf_overrides")
    check_scheduler(overrides)
    [[package]] = values("cinder_user_pip_packages")
    assert package.startswith("tonnage @ https://")


def test_the_secret_and_the_values_of_openstack_helm_fit_together() -> None:
    [secret] = [document for document in documents() if document.get("kind") == "Secret"]
    [job] = [document for document in documents() if document.get("kind") == "Job"]
    check_scheduler(ini(secret["stringData"]["scheduler.conf"]))
    check_commands(ini(secret["stringData"]["tonnage.conf"]))
    [pod] = values("pod")
    [source] = pod["etcSources"]["cinder_scheduler"]
    used = [source["secret"], job["spec"]["template"]["spec"]["volumes"][0]["secret"]]
    names = [part.get("name") or part.get("secretName") for part in used]
    assert names == [secret["metadata"]["name"]] * 2
    assert {item["key"] for part in used for item in part["items"]} == secret["stringData"].keys()


def test_the_images_that_are_used_are_built() -> None:
    [images] = values("images")
    [image], [tag] = values("cinder_scheduler_image"), values("cinder_scheduler_tag")
    built = re.findall(r"docker build --tag (\S+) ", _PAGE)
    assert sorted(built) == sorted([f"{image}:{tag}", images["tags"]["cinder_scheduler"]])
    assert len(blocks("docker")) == len(built)
