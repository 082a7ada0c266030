# SPDX-License-Identifier: Apache-2.0
"""The loader of plug-ins: one wording for each cause, whatever the setting that names the plug-in."""

import pathlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors
from tonnage.plugin import Plugin
from tonnage.plugin_loader import PluginLoader, broken, mutable_options

LOADER = PluginLoader("tonnage.test", Plugin)


class Works(Plugin):
    options = (cfg.IntOpt("width"),)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The objects of the entry points in the namespace, by name."""
    objects: dict[str, list[Any]] = {"works": [Works], "twice": [Works, Works], "function": [len], "other": [dict]}

    def load_plugins(namespace: str, name: str) -> list[Any]:
        assert namespace == "tonnage.test"
        if name == "fails":
            raise ModuleNotFoundError("no such module")
        return objects.get(name, [])

    points = [SimpleNamespace(name=name, load=lambda: Works) for name in ("works", "fails", "works")]
    monkeypatch.setattr(installation, "load_plugins", load_plugins)
    monkeypatch.setattr(installation, "entry_points", lambda namespace: points)
    return objects


def create(plugin_class: type[Plugin]) -> Plugin:
    return plugin_class(SimpleNamespace(width=3))


def test_a_plugin_is_created_of_the_class_with_the_name() -> None:
    loaded = LOADER.load("setting", "works", create)
    assert type(loaded) is Works
    assert loaded.conf.width == 3


def test_an_unknown_name_lists_the_known_names_once() -> None:
    with pytest.raises(errors.MissingPlugin) as caught:
        LOADER.load("[ssd] setting", "absent", create)
    assert caught.value.message == "[ssd] setting names 'absent', which is not installed; known are fails, works"


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    for name in ("work", "wroks"):
        with pytest.raises(errors.MissingPlugin, match=r"; known are fails, works; did you mean works\?$"):
            LOADER.load("setting", name, create)


def test_without_another_plugin_none_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "entry_points", lambda namespace: [SimpleNamespace(name="fails")])
    with pytest.raises(errors.ConfigurationError, match=r"no such module; no other is known$"):
        LOADER.load("setting", "fails", create)


@pytest.mark.parametrize(
    ("namespace", "cause", "advised"),
    [
        ("tonnage.filters", "ModuleNotFoundError: No module named 'cinder'", True),
        ("tonnage.weighers", "ModuleNotFoundError: No module named 'cinder.scheduler'", True),
        ("tonnage.filters", "TypeError: Can't instantiate abstract class F with abstract method accepts_pool", True),
        ("tonnage.filters", "it is not a subclass of tonnage.filters.base.Filter", True),
        ("tonnage.filters", "ValueError: boom", False),
        ("tonnage.drivers", "ModuleNotFoundError: No module named 'cinder'", False),
    ],
)
def test_the_error_of_a_plugin_of_cinder_names_the_page_for_its_author(
    namespace: str, cause: str, advised: bool
) -> None:
    message = broken(namespace, "setting", "works", cause).message
    assert ("'Coming from Cinder' in the guide of plug-ins, docs/plugin-guide.rst" in message) is advised
    guide = pathlib.Path(__file__).parents[2] / "docs" / "plugin-guide.rst"
    assert "\nComing from Cinder\n==" in guide.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("fails", "ModuleNotFoundError: no such module"),
        ("twice", "several installed packages provide one of that name"),
        ("function", "it is not a subclass of tonnage.plugin.Plugin"),
        ("other", "it is not a subclass of tonnage.plugin.Plugin"),
    ],
)
def test_a_broken_plugin_is_named_with_the_cause(name: str, cause: str) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        LOADER.load("setting", name, create)
    others = {"fails": "works"}.get(name, "fails, works")
    assert caught.value.message == f"setting names '{name}', which cannot be loaded: {cause}; known are {others}"
    assert not isinstance(caught.value, errors.MissingPlugin)


def failing(error: BaseException) -> Callable[[type[Plugin]], Plugin]:
    def create(plugin_class: type[Plugin]) -> Plugin:
        raise error

    return create


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit("boom"), errors.DriverError("boom")])
def test_an_error_of_the_constructor_is_a_configuration_error(error: BaseException) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        LOADER.load("setting", "works", failing(error))
    assert f"names 'works', which cannot be loaded: {type(error).__name__}: boom; known are" in caught.value.message


def test_the_error_of_a_bad_option_passes_through() -> None:
    error = errors.ConfigurationError("[ssd] width = wide: it takes a whole number")
    with pytest.raises(errors.ConfigurationError) as caught:
        LOADER.load("setting", "works", failing(error))
    assert caught.value is error


def test_the_options_of_the_installed_plugins_can_change() -> None:
    [option, *_] = mutable_options(option for plugin_class in LOADER.classes() for option in plugin_class.options)
    assert option.mutable
    assert not Works.options[0].mutable
