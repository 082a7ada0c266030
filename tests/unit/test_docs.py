# SPDX-License-Identifier: Apache-2.0
"""The documentation's examples do what it says."""

import doctest
import gzip
import importlib
import itertools
import pathlib
import re
import types
from importlib import metadata

import numpy as np
import prometheus_client
import pytest
from oslo_config import cfg

from tests.unit.api.monitoring.ledger_pages import page_of, world_with_volumes
from tonnage import enabled_extensions, extension
from tonnage.agent import options as agent_options
from tonnage.api import options as api_options
from tonnage.api.auth import authentication
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.drivers import loader
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import settings
from tonnage.weighers.chain import WeigherChain

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.rst") if "_build" not in path.parts)
WITH_EXAMPLES = [path for path in PAGES if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_in_python_are_true(page: pathlib.Path) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0


def test_the_arithmetic_is_among_them() -> None:
    assert DOCS / "over-subscription.rst" in WITH_EXAMPLES


def test_the_readme_names_the_test_command_and_pages_that_exist() -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    assert re.search(r"^  make test$", text, re.MULTILINE)
    linked = re.findall(r"`[^`<]+<([^>`]+)>`_", text)
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_pages_show_the_revision_that_the_database_gets() -> None:
    shown = [
        re.findall(r"is at revision (\d+) ", page.read_text(encoding="utf-8")) for page in (ROOT / "README.rst", *PAGES)
    ]
    assert set(itertools.chain.from_iterable(shown)) == {schema.HEAD}


def _prose(text: str) -> str:
    """Return reStructuredText without literals and without blocks of code."""
    kept: list[str] = []
    block: int | None = None
    for paragraph in re.split(r"\n{2,}", text.strip()):
        indent = min(len(line) - len(line.lstrip()) for line in paragraph.split("\n"))
        if (block is not None and indent > block) or paragraph.lstrip().startswith(">>> "):
            continue
        is_code = re.search(r"^ *\.\. (code-block|literalinclude)::", paragraph, re.MULTILINE) or paragraph.endswith(
            "::"
        )
        block = indent if is_code else None
        kept.append(paragraph)
    return re.sub(r"``.*?``|`[^`]*`", "", "\n\n".join(kept), flags=re.DOTALL)


def test_no_name_of_a_pool_becomes_a_link_to_a_mailbox() -> None:
    """Outside of literals ``host@backend`` is an address to docutils, which makes a ``mailto:`` link of it."""
    pages = [ROOT / "README.rst", *PAGES, *sorted(ROOT.glob("releasenotes/notes/*.yaml"))]
    found = {page.name: re.findall(r"[\w.+-]+@[\w-]+\S*", _prose(page.read_text(encoding="utf-8"))) for page in pages}
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_configurations_for_several_machines_work(tmp_path: pathlib.Path) -> None:
    folder = ROOT / "etc" / "several-machines"
    control = cfg.ConfigOpts()
    core = (rpc_options.register, settings.register, database_options.register, api_options.register)
    for register in (*core, enabled_extensions.register):
        register(control)
    control(["--config-file", str(folder / "control.conf")], project="tonnage")
    enabled_extensions.register_options(control)
    settings.validate(control)
    authentication.select(control, control.osapi_volume_listen)
    assert (control.auth_strategy, control.noauth_on_any_address) == ("noauth", False)
    database.connect(control).close()

    storage = cfg.ConfigOpts()
    for register in (rpc_options.register, agent_options.register):
        register(storage)
    storage(["--config-file", str(folder / "storage.conf")], project="tonnage")
    assert agent_options.backends(storage) == ["ssd", "archive"]
    for section in agent_options.backends(storage):
        loader.load(f"{storage.host}@{section}", section, storage)


def _documented_metrics() -> set[str]:
    """Return the names on the pages; ``_enabled`` after ``tonnage_backend_up`` is ``tonnage_backend_enabled``."""
    documented: set[str] = set()
    for page in ("metrics.rst", "cinder-watch.rst"):
        base = ""
        for name in re.findall(r"``(tonnage_\w+|_\w+)", (DOCS / page).read_text(encoding="utf-8")):
            full_name = base + name if name.startswith("_") else name
            documented.add(full_name)
            if not name.startswith("_"):
                base = name.rpartition("_")[0]
    return documented


def test_each_metric_stands_on_the_page_about_metrics() -> None:
    instruments = [
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in sorted(ROOT.glob("*/**/*instruments.py"))
        if path.parts[len(ROOT.parts)] in ("metrics", "extensions")
    ]
    assert "metrics.instruments" in instruments
    for name in instruments:
        importlib.import_module(f"tonnage.{name}")
    of_process = {
        family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        for family in prometheus_client.REGISTRY.collect()
        if family.name.startswith("tonnage_")
    }
    series = [
        extension.load(declaration.metrics)(100)
        for declaration in extension.installed().values()
        if declaration.metrics
    ]
    world = world_with_volumes()  # its end closes the ledger
    page = gzip.decompress(page_of(world, series=series).compressed(None)).decode()
    of_ledger = set(re.findall(r"^# TYPE (tonnage_\w+)", page, re.MULTILINE))
    assert len(of_process) > 10
    assert len(of_ledger) > 20
    assert (of_process | of_ledger) - _documented_metrics() == set()


@pytest.mark.parametrize("group", ["tonnage.filters", "tonnage.weighers", "tonnage.drivers"])
def test_the_list_of_shipped_plugins_has_something_to_say_of_each(group: str) -> None:
    page = (DOCS / "reference" / "plugins.rst").read_text(encoding="utf-8")
    assert f".. list-plugins:: {group}\n   :detailed:\n" in page
    shipped = metadata.distribution("tonnage").entry_points.select(group=group)
    assert shipped
    assert [point.name for point in shipped if not point.load().__doc__] == []


def test_the_documented_weigher_prefers_what_the_hint_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "examples" / "tonnage-example-plugins"))
    weigher = importlib.import_module("tonnage_example.weighers").MediaWeigher(
        types.SimpleNamespace(media_weight_multiplier=2.0)
    )
    pools = PoolTable(
        Pool(name=f"h@{media}#p", total=10, free=10, thick=True, capabilities={"media": media})
        for media in ("hdd", "ssd")
    )
    chain = WeigherChain([weigher])
    everything = np.ones(2, dtype=np.bool_)
    for media in ("hdd", "ssd"):
        best = chain.rank(pools, Request("req-1", 1, hints={"media": media}), everything)
        assert best is not None
        assert pools.names[best] == f"h@{media}#p"
    assert weigher.weigh(pools, Request("req-1", 1)).tolist() == [0.0, 0.0]
