#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv in the checkout, with Tonnage (editable) and the dependency groups named as arguments.
# Does nothing when the last run already did it. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamps=$venv/.tonnage # a file per group; each holds the folder that it was made for
log=$venv/install.log
terminal=0
if [[ -t 1 ]]; then terminal=1; fi

say() { echo "==> $*"; }
die() {
    echo "tonnage: $*" >&2
    exit 1
}

current() { # is this group (or the package itself) as setup.cfg and pyproject.toml want it?
    local stamp=$stamps/$1 file
    [[ -f $stamp && $(<"$stamp") == "$PWD" ]] || return 1
    for file in setup.cfg pyproject.toml tools/setup.sh; do
        [[ $stamp -nt $file ]] || return 1
    done
}

find_python() { # print the first Python that is new enough and can make a virtual environment
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
        die "$without_venv cannot make a virtual environment; install the package python3-venv"
    fi
    die "Python 3.11 or newer is needed${PYTHON:+ ($PYTHON is not)}; install the packages python3 and python3-venv"
}

# Of pip's output show how far it is: one line that moves on a terminal, a line now and then elsewhere.
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

pip_install() {
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar=off \
        --root-user-action=ignore "$@" 2>&1 | show_progress; then
        tail -n 5 "$log" >&2
        die "installation failed; all that pip said is in $log"
    fi
}

if [[ -d $venv ]] && { [[ ! -f $stamps/python ]] || [[ $(<"$stamps/python") != "$PWD" ]] || ! "$venv/bin/python" -c ''; } 2>/dev/null; then
    say "Removing .venv: it was not finished, or belongs to another folder"
    rm -rf "$venv"
fi
if [[ ! -d $venv ]]; then
    python=$(find_python)
    say "Creating .venv with $("$python" --version)"
    "$python" -m venv "$venv"
    pip_install --upgrade 'pip>=25.1' # the first that knows dependency groups
    mkdir "$stamps"
    echo "$PWD" >"$stamps/python"
fi

# What is missing is installed in one go, so that pip goes through all that is needed once.
missing=()
arguments=()
if ! current package; then
    missing+=("Tonnage and what it needs")
    arguments+=(--editable .)
fi
for group in "$@"; do
    if ! current "$group"; then
        missing+=("what the group '$group' of pyproject.toml names")
        arguments+=(--group "$group")
    fi
done
if ((${#missing[@]})); then
    printf '==> Installing %s\n' "${missing[@]}"
    pip_install "${arguments[@]}"
    for group in package "$@"; do echo "$PWD" >"$stamps/$group"; done
fi
