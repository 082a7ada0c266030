# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from oslo_config import cfg, types

from tonnage.rpc import option_errors

OPTIONS = [
    cfg.IntOpt("many", default=1, min=1, max=64),
    cfg.IntOpt("some", default=1, min=1),
    cfg.FloatOpt("share", default=0.5, max=1),
    cfg.PortOpt("port", default=80),
    cfg.BoolOpt("loud", default=False),
    cfg.StrOpt("colour", default="red", choices=["red", "green", "blue"]),
    cfg.StrOpt("sole", default="red", choices=["red"]),
    cfg.Opt("sizes", type=types.List(types.Integer(min=1)), default=[1]),
    cfg.IntOpt("pin", default=1, secret=True),
    cfg.IntOpt("new_name", default=1, min=1, deprecated_name="old_name"),
]


def read(file: pathlib.Path, text: str, name: str, group: str | None = None) -> str:
    file.write_text(text)
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS, group)
    conf(["--config-file", str(file)], project="tonnage")
    try:
        value = (conf if group is None else conf[group])[name]
    except ValueError as error:
        return option_errors.complaint(conf, name, group, error).replace(str(file), "FILE")
    raise AssertionError(value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("many = 65", "many = 65 in FILE: it takes a whole number from 1 to 64"),
        ("many = x", "many = x in FILE: it takes a whole number from 1 to 64"),
        ("some = -3", "some = -3 in FILE: it takes a whole number of at least 1"),
        ("share = 1.5", "share = 1.5 in FILE: it takes a number of at most 1"),
        ("port = 99999", "port = 99999 in FILE: it takes a whole number from 0 to 65535"),
        ("loud = maybe", "loud = maybe in FILE: it takes true or false"),
        ("colour = pink", "colour = pink in FILE: it takes red, green or blue"),
        ("sole = pink", "sole = pink in FILE: Valid values are [red], but found 'pink'"),
        ("sizes = 1,0", "sizes = 1,0 in FILE: Should be greater than or equal to 1"),
        ("pin = sesame", "pin in FILE: it takes a whole number"),
        ("some = " + 200 * "x", f"some = {80 * 'x'}... in FILE: it takes a whole number of at least 1"),
    ],
)
def test_a_message_has_the_option_its_value_its_place_and_the_allowed_values(
    tmp_path: pathlib.Path, line: str, said: str
) -> None:
    name = line.split()[0]
    assert read(tmp_path / "x.conf", f"[DEFAULT]\n{line}\n", name) == f"[DEFAULT] {said}"
    assert read(tmp_path / "x.conf", f"[part]\n{line}\n", name, "part") == f"[part] {said}"


def test_a_value_under_a_former_name(tmp_path: pathlib.Path) -> None:
    said = read(tmp_path / "x.conf", "[DEFAULT]\nold_name = 0\n", "new_name")
    assert said == "[DEFAULT] new_name = 0 in FILE: it takes a whole number of at least 1"


def test_a_value_from_the_environment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_PART__MANY", "0")
    expected = "[part] many = 0 in the environment variable OS_PART__MANY: it takes a whole number from 1 to 64"
    for text in ("", "[part]\nmany = 2\n"):
        assert read(tmp_path / "x.conf", text, "many", "part") == expected


def test_what_is_wrong_with_something_else_keeps_its_words(tmp_path: pathlib.Path) -> None:
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS)
    conf([], project="tonnage", default_config_files=[])
    error = cfg.TemplateSubstitutionError("$x is nowhere")
    assert (
        option_errors.complaint(conf, "some", None, error)
        == "[DEFAULT] some: template substitution error: $x is nowhere"
    )
