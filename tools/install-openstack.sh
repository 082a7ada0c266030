#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install services of OpenStack for the tests into an environment of their own, because their requirements must not
# conflict with Tonnage's: Placement and Keystone into .openstack, with the argument "cinder" Cinder and Glance into
# .cinder, together with Tonnage. With "cinder 28" these are of that release, in .cinder-28, with the libraries of its
# upper constraints (TOX_CONSTRAINTS_FILE: another file or URL with them). There Tonnage is installed last, as beside a
# Cinder that runs, and the file before.txt has the versions of before. With "watcher" it is Watcher, into .watcher, with
# Tonnage's package alone, without its requirements.
# An up-to-date environment stays unchanged. This script never fails: tests without their service report it.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A series=([25]=2024.2 [26]=2025.1 [27]=2025.2 [28]=2026.1 [29]=2026.2)
libraries=('waitress>=3.0' 'PyMySQL>=1.1' 'psycopg2-binary>=2.9' 'ddt>=1.7' 'oslotest>=4.5')
release=${2-}
tonnage=()
case ${1-}-$release in
-) venv=.openstack packages=('openstack-placement>=13.0' 'keystone>=27.0') ;;
cinder-) venv=.cinder packages=('cinder==29.0.0' 'glance>=32.0' "${libraries[@]}" --editable .) ;;
cinder-2[5-9])
    constraints=${TOX_CONSTRAINTS_FILE:-https://releases.openstack.org/constraints/upper/${series[$release]}}
    venv=.cinder-$release tonnage=(--editable . --constraint "$constraints")
    packages=("cinder==$release.*" glance 'setuptools<81' "${libraries[@]}" --constraint "$constraints")
    ;;
watcher-) venv=.watcher packages=('python-watcher>=17.0') tonnage=(--no-deps --editable .) ;;
*)
    echo "usage: $0 [cinder [25|26|27|28|29] | watcher]" >&2
    exit 2
    ;;
esac

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet --progress-bar=off \
        --root-user-action=ignore "$@" >>"$venv/install.log" 2>&1
}

add_tonnage() {
    ((${#tonnage[@]} == 0)) && return
    "$venv/bin/python" -m pip freeze --disable-pip-version-check --all >"$venv/before.txt" && install "${tonnage[@]}"
}

[[ -f $venv/complete && $(<"$venv/complete") == "$PWD ${packages[*]}" ]] && exit 0
echo "==> Installing for the tests: ${packages[*]}"
rm -rf "$venv"
if python3 -m venv "$venv" && install "${packages[@]}" && add_tonnage; then
    echo "$PWD ${packages[*]}" >"$venv/complete"
else
    tail -n 5 "$venv/install.log" >&2 || true
    rm -rf "$venv"
    echo "==> Could not install ${packages[*]}. Tests that need them are skipped."
fi
