# SPDX-License-Identifier: Apache-2.0
"""A program that installs a chart in a cluster, upgrades or uninstalls it, with values as JSON on standard input.

``helm_release.py KUBECONFIG NAMESPACE CHART install|upgrade|uninstall``

It prints the error of Helm with status 1. Helm is in ``.kubernetes``, not in the environment of the tests.
"""

import json
import sys

import helm_python  # type: ignore[import-not-found]

_RELEASE = "tonnage"


def main() -> int:
    kubeconfig, namespace, chart, action = sys.argv[1:]
    values = json.load(sys.stdin)
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=namespace) as helm:
        try:
            if action == "install":
                helm.install(chart, _RELEASE, values, namespace=namespace, create_namespace=True)
            elif action == "upgrade":
                helm.upgrade(chart, _RELEASE, values, namespace=namespace)
            else:
                helm.uninstall(_RELEASE)
        except helm_python.HelmError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
