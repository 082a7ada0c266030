#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv in the checkout, with Tonnage (editable) and the dependency groups given as arguments.
# An up-to-date .venv stays unchanged. PYTHON selects the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamps=$venv/.tonnage # one file for each group, which contains the path of the checkout
log=$venv/install.log
terminal=0
if [[ -t 1 ]]; then terminal=1; fi

say() { echo "==> $*"; }
die() {
    echo "tonnage: $*" >&2
    exit 1
}

current() { # return whether this group (or the package itself) matches setup.cfg and pyproject.toml
    local stamp=$stamps/$1 file
    [[ -f $stamp && $(<"$stamp") == "$PWD" ]] || return 1
    for file in setup.cfg pyproject.toml tools/setup.sh; do
        [[ $stamp -nt $file ]] || return 1
    done
}

find_python() { # print the first Python that is new enough and can create a virtual environment
    local candidate without_venv=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        without_venv=${without_venv:-$candidate}
    done
    if [[ $without_venv ]]; then
        die "$without_venv cannot create a virtual environment; install the package python3-venv"
    fi
    die "Python 3.11 or newer is needed${PYTHON:+ ($PYTHON is not)}; install the packages python3 and python3-venv"
}

# Show the progress of pip: one changing line on a terminal, a line for every 20 packages elsewhere.
show_progress() {
    awk -v terminal="$terminal" -v log_file="$log" '
        function show(text) {
            if (terminal) printf "\r\033[K    %.70s", text
            else print "    " text
            fflush()
        }
        { print > log_file; fflush(log_file) }
        /^Collecting / { packages++; if (terminal || packages % 20 == 0) show(packages " packages looked up, now " $2) }
        /^ *Downloading / { if (terminal) show(packages " packages looked up, loading " $2) }
        /^Installing collected packages/ { if (packages > 1) show("installing " gsub(/,/, ",") + 1 " packages") }
        END { if (terminal) printf "\r\033[K" }
    '
}

# Python compiles a module at its first import. To compile all of them here would take most of the time of an installation,
# and most are never imported.
pip_install() {
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar=off --no-compile \
        --root-user-action=ignore "$@" 2>&1 | show_progress; then
        tail -n 5 "$log" >&2
        die "installation failed; the output of pip is in $log"
    fi
}

if [[ -d $venv ]] && { [[ ! -f $stamps/python ]] || [[ $(<"$stamps/python") != "$PWD" ]] || ! "$venv/bin/python" -c ''; } 2>/dev/null; then
    say "Removing .venv: it is incomplete, or belongs to another folder"
    rm -rf "$venv"
fi
if [[ ! -d $venv ]]; then
    python=$(find_python)
    say "Creating .venv with $("$python" --version)"
    "$python" -m venv "$venv"
    pip_install --upgrade 'pip>=25.1' # the first release with dependency groups
    mkdir "$stamps"
    echo "$PWD" >"$stamps/python"
fi

# One run of pip installs all missing groups, so that it resolves the requirements once.
missing=()
arguments=()
if ! current package; then
    missing+=("Tonnage and what it needs")
    arguments+=(--editable '.[all]')
fi
for group in "$@"; do
    if ! current "$group"; then
        missing+=("the dependency group '$group' of pyproject.toml")
        arguments+=(--group "$group")
    fi
done
if ((${#missing[@]})); then
    printf '==> Installing %s\n' "${missing[@]}"
    pip_install "${arguments[@]}"
    for group in package "$@"; do echo "$PWD" >"$stamps/$group"; done
fi
