#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Write etc/tonnage.conf.sample and etc/policy.yaml.sample anew from the options and rules in the code, and the names of
# the options for those who look for slips of the pen.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH

echo "==> Writing etc/tonnage.conf.sample, etc/policy.yaml.sample and cli/option_names.txt"
export PYTHONWARNINGS=ignore # eventlet announces its retirement to whoever loads oslo.messaging's options
oslo-config-generator --config-file tools/config-generator.conf
oslopolicy-sample-generator --config-file tools/policy-generator.conf
names=$(python -m tonnage.cli.option_names)
echo "$names" >cli/option_names.txt
