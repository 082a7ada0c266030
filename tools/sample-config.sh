#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Write etc/tonnage.conf.sample and etc/policy.yaml.sample anew from the options and rules in the code.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH

echo "==> Writing etc/tonnage.conf.sample and etc/policy.yaml.sample"
export PYTHONWARNINGS=ignore # eventlet announces its retirement to whoever loads oslo.messaging's options
oslo-config-generator --config-file tools/config-generator.conf
oslopolicy-sample-generator --config-file tools/policy-generator.conf
