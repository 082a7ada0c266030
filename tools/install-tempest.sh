#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install OpenStack's Tempest for the tests into .tempest, a separate environment, because its requirements must not
# conflict with Tonnage's. An up-to-date environment stays unchanged.
# This script never fails: tests without Tempest report it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.tempest
# Tests of a later release may need features that tests/tempest/left_out.txt does not name yet.
package='tempest==47.0.0'

[[ -f $venv/complete && $(<"$venv/complete") == "$PWD $package" ]] && exit 0
echo "==> Installing for the tests: $package"
rm -rf "$venv"
if python3 -m venv "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --progress-bar=off --root-user-action=ignore "$package" >"$venv/install.log" 2>&1; then
    echo "$PWD $package" >"$venv/complete"
else
    tail -n 5 "$venv/install.log" >&2 || true
    rm -rf "$venv"
    echo "==> Could not install $package. Tests that need it are skipped."
fi
