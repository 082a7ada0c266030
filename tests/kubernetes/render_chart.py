# SPDX-License-Identifier: Apache-2.0
"""A program that renders a chart, with values as JSON on standard input.

``render_chart.py CHART NAMESPACE [notes]``

It prints the objects in YAML or, with ``notes``, what Helm tells after an installation; or the error of Helm with
status 1. Helm is in ``.kubernetes``, not in the environment of the tests.
"""

import json
import sys

import helm_python  # type: ignore[import-not-found]


def main() -> int:
    chart, namespace, *notes = sys.argv[1:]
    if findings := helm_python.lint(chart)["errors"]:
        print(*findings, sep="\n")
        return 1
    with helm_python.Chart.load(chart) as loaded:
        try:
            rendered = loaded.render(json.load(sys.stdin), name="tonnage", namespace=namespace)
        except helm_python.HelmError as error:
            print(error)
            return 1
    texts = [text for path, text in rendered.items() if path.endswith("NOTES.txt") == bool(notes)]
    print(*texts, sep="\n---\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
