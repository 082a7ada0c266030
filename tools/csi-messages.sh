#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generate drivers/csi/csi_pb2.py and its types from csi.proto. The compiler is the oldest release that the extra `csi`
# of setup.cfg permits, because older libraries refuse the output of a newer compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH

echo "==> Writing drivers/csi/csi_pb2.py and csi_pb2.pyi"
python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. tonnage/drivers/csi/csi.proto
