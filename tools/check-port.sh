#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# End with an error if a program listens where the REST API of this configuration file would, so that `make run` tells it
# before the installation. What this cannot read is left to tonnage-standalone.
set -euo pipefail

conf=$1
option() { # print the value of an option in the file, otherwise the default
    local value
    value=$(sed -n "s/^ *$1 *= *//p" "$conf" 2>/dev/null | tail -n 1)
    echo "${value:-$2}"
}

address=$(option osapi_volume_listen 127.0.0.1)
port=$(option osapi_volume_listen_port 8776)
if (exec 3<>"/dev/tcp/$address/$port") 2>/dev/null; then
    echo "tonnage: a program listens on $address:$port already (osapi_volume_listen_port in $conf): end it, or copy the" \
        "file, choose another port and run 'make run CONF=COPY'" >&2
    exit 1
fi
