#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Certificates without cert-manager, in a new folder: an authority for nothing but the extender and its clients (ca.*), and
# in extender/ and kube-scheduler/ what the Secrets tonnage-extender-tls and tonnage-kube-scheduler-tls hold. Then
#
#     for name in extender kube-scheduler; do
#         kubectl create secret generic tonnage-$name-tls --namespace tonnage --from-file FOLDER/$name
#     done
#
# Keep ca.key away from the cluster: who has it is let in by the extender.
set -euo pipefail
umask 077
if [[ $# -ne 1 ]]; then
    echo "usage: ${0##*/} FOLDER" >&2
    exit 2
fi
mkdir "$1"
cd "$1"

key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

openssl req -x509 "${key[@]}" -days 3650 -subj /CN=tonnage-ca -keyout ca.key -out ca.crt \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign

sign() { # name, common name, extensions...
    local name=$1 common_name=$2
    shift 2
    mkdir "$name"
    printf '%s\n' basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature "$@" > "$name/extensions"
    openssl req "${key[@]}" -subj "/CN=$common_name" -keyout "$name/tls.key" -out "$name/request"
    openssl x509 -req -in "$name/request" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 \
        -extfile "$name/extensions" -out "$name/tls.crt"
    rm "$name/request" "$name/extensions"
    cp ca.crt "$name/ca.crt"
}

sign extender tonnage-extender extendedKeyUsage=serverAuth \
    subjectAltName=DNS:tonnage-extender.tonnage.svc,DNS:tonnage-admission.tonnage.svc
sign kube-scheduler kube-scheduler extendedKeyUsage=clientAuth
