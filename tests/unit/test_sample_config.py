# SPDX-License-Identifier: Apache-2.0
"""The sample files in etc/ say what the code says. ``make sample-config`` writes them anew."""

import io
import pathlib
import re

from oslo_config import cfg, generator
from oslo_policy import policy

from tonnage.api.auth import policies
from tonnage.cli import opts

ROOT = pathlib.Path(__file__).parents[2]
STALE = "run `make sample-config`"


def _blocks(text: str) -> dict[tuple[str, str], str]:
    """Section and name of each option, with the comment above it and its default."""
    blocks = {}
    section, lines = "DEFAULT", []
    for line in text.splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section, lines = heading[1], []
            continue
        lines.append(line)
        if option := re.match(r"#(\w+) =", line):
            blocks[section, option[1]] = "\n".join(lines).strip()
            lines = []
    return blocks


def _generated() -> dict[tuple[str, str], str]:
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(ROOT / "tools" / "config-generator.conf")], project="tonnage", default_config_dirs=[])
    output = io.StringIO()
    generator.generate(conf, output_file=output)
    return _blocks(output.getvalue())


def _own() -> set[tuple[str, str]]:
    return {
        (str(getattr(group, "name", group) or "DEFAULT"), option.dest)
        for group, options in opts.list_opts()
        for option in options
    }


def test_the_sample_configuration_shows_the_options_of_the_code() -> None:
    """Tonnage's own options word for word; those of libraries may be worded for another version of the library."""
    sample = _blocks((ROOT / "etc" / "tonnage.conf.sample").read_text(encoding="utf-8"))
    generated, own = _generated(), _own()
    assert {key: block for key, block in sample.items() if key in own} == {key: generated[key] for key in own}, STALE
    sections = {section for section, _ in own}
    assert {key for key in sample if key[0] in sections} - generated.keys() == set(), STALE


def test_no_option_of_ours_is_also_one_of_a_library() -> None:
    """oslo.config refuses the second registration, at start, in front of the operator."""
    text = (ROOT / "etc" / "tonnage.conf.sample").read_text(encoding="utf-8")
    for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        names = re.findall(r"^#(\w+) =", section, flags=re.MULTILINE)
        assert sorted(names) == sorted(set(names)) or section.startswith("oslo_")


def test_the_sample_policy_shows_the_rules_of_the_code() -> None:
    sample = (ROOT / "etc" / "policy.yaml.sample").read_text(encoding="utf-8")
    rules = {rule.name: rule for rule in policies.list_rules()}
    assert dict(re.findall(r'^#"(.+?)": "(.*)"$', sample, flags=re.MULTILINE)) == {
        name: rule.check_str for name, rule in rules.items()
    }, STALE
    for rule in rules.values():
        if isinstance(rule, policy.DocumentedRuleDefault):
            for operation in rule.operations:
                assert f"{operation['path']}\n" in sample, STALE
