# SPDX-License-Identifier: Apache-2.0
"""Survey the drivers of Cinder: which of the fields that decide does each report, and in which form?

Run it with the Python of an environment that has Cinder (``tools/install-openstack.sh cinder`` makes ``.cinder``)::

    .cinder/bin/python tools/survey_cinder_drivers.py

It reads the sources, without importing them, and writes ``tests/unit/capacity/reports/cinder_drivers.json`` and the
table ``docs/cinder-driver-reports.inc``. A form is a constant as JSON, ``option`` for the value of an option of the
configuration as it is (Cinder's option of the ratio is a text), or ``computed``. A field with several forms is set in
several places. ``missing`` is among the forms of a field that the file does not set.
"""

import ast
import importlib.metadata
import importlib.util
import json
import pathlib
from collections.abc import Iterator

FIELDS = (
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "reserved_percentage",
    "max_over_subscription_ratio",
    "thin_provisioning_support",
    "thick_provisioning_support",
)
_HEADINGS = ("total", "free", "provisioned", "reserved", "ratio", "thin", "thick")
_HERE = pathlib.Path(__file__).parents[1]
_DATA = _HERE / "tests/unit/capacity/reports/cinder_drivers.json"
_TABLE = _HERE / "docs/cinder-driver-reports.inc"


def survey(folder: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    """Return the forms of each field, for each file below ``folder`` that reports a total capacity."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text())
        values: dict[str, list[ast.expr]] = {}
        for key, value in _settings(tree):
            values.setdefault(key, []).append(value)
        if "total_capacity_gb" not in values:
            continue
        variables = dict(_assignments(tree))
        forms = {key: sorted({form for value in values[key] for form in _forms(value, variables)}) or ["missing"]
                 for key in FIELDS if key in values}  # fmt: skip
        forms |= {key: ["missing"] for key in FIELDS if key not in values}
        forms["pools"] = ["list" if "pools" in values else "missing"]
        found[path.relative_to(folder).as_posix()] = forms
    return found


def _settings(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each key that the code sets in a mapping, with its value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    yield str(target.slice.value), node.value
        elif isinstance(node, ast.Call):
            yield from ((word.arg, word.value) for word in node.keywords if word.arg in FIELDS)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield each name and attribute that the code assigns, with the values."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    found.setdefault(ast.unparse(target), []).append(node.value)
    yield from found.items()


def _forms(value: ast.expr, variables: dict[str, list[ast.expr]], depth: int = 2) -> set[str]:
    """Return the forms of a value, following variables up to ``depth`` assignments back."""
    try:
        return {json.dumps(ast.literal_eval(value))}
    except (ValueError, TypeError):
        pass
    text = ast.unparse(value)
    if depth and text in variables:
        return {form for each in variables[text] for form in _forms(each, variables, depth - 1)}
    if isinstance(value, ast.IfExp):
        return _forms(value.body, variables, depth) | _forms(value.orelse, variables, depth)
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return {form for each in value.values for form in _forms(each, variables, depth)}
    is_option = any(word in text for word in ("configuration.", "config.", "conf.", "safe_get(")) and (
        isinstance(value, ast.Attribute) or (isinstance(value, ast.Call) and "safe_get" in ast.unparse(value.func))
    )
    return {"option" if is_option else "computed"}


def _cell(forms: list[str]) -> str:
    return ", ".join(form.strip('"') for form in forms)


def _table(found: dict[str, dict[str, list[str]]]) -> str:
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "",
        *_row(["file below ``cinder/volume/drivers``", *_HEADINGS, "pools"]),
    ]
    for path, forms in found.items():
        lines += _row([f"``{path}``", *(_cell(forms[key]) for key in (*FIELDS, "pools"))])
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> list[str]:
    return [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(cells)]


def main() -> None:
    """Write both files."""
    spec = importlib.util.find_spec("cinder")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "this Python has no Cinder; run tools/install-openstack.sh cinder, then use .cinder/bin/python"
        )
    found = survey(pathlib.Path(spec.origin).parent / "volume" / "drivers")
    release = importlib.metadata.version("cinder")
    _DATA.write_text(json.dumps({"release": release, "drivers": found}, indent=1) + "\n")
    _TABLE.write_text(_table(found))
    print(f"Cinder {release}: {len(found)} files report a total capacity")


if __name__ == "__main__":
    main()
