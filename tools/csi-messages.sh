#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Write drivers/csi/csi_pb2.py and its types anew from csi.proto. Their compiler is held to the oldest release that the
# extra `csi` of setup.cfg admits: older libraries would refuse what a newer one writes.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH

echo "==> Writing drivers/csi/csi_pb2.py and csi_pb2.pyi"
python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. tonnage/drivers/csi/csi.proto
