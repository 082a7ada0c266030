#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generate etc/tonnage.conf.sample, etc/cinder-tonnage.conf.sample (a part of cinder.conf) and etc/policy.yaml.sample from
# the options and rules in the code, and cli/option_names.txt, the list of option names for the check of unknown options.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH

echo "==> Writing etc/*.sample and cli/option_names.txt"
export PYTHONWARNINGS=ignore # eventlet emits a deprecation warning when oslo.messaging's options are loaded
oslo-config-generator --config-file tools/config-generator.conf
oslo-config-generator --config-file tools/cinder-config-generator.conf
oslopolicy-sample-generator --config-file tools/policy-generator.conf
names=$(python -m tonnage.cli.option_names)
echo "$names" >cli/option_names.txt
