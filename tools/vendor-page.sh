#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bundle the JavaScript libraries of the web page into vendor.js and vendor.css in extensions/page/static, with their licences,
# versions and checksums in vendor.txt. It needs node and npm; nothing else does. Change the versions here and run it.
set -euo pipefail
cd "$(dirname "$0")/.."

libraries=(preact@11.2.0 htm@3.1.1 uplot@1.6.32)
bundler=esbuild@0.28.2
static=$PWD/extensions/page/static

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' >package.json
# No scripts of packages run.
npm install --silent --ignore-scripts --no-audit --no-fund "${libraries[@]}" "$bundler"
cat >entry.js <<'EOF'
import { h } from "preact";
import htm from "htm";
export { render } from "preact";
export { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
export { default as UPlot } from "uplot";
EOF
node_modules/.bin/esbuild entry.js --bundle --minify --format=esm --target=es2022 --legal-comments=none \
    --banner:js='/* See vendor.txt for versions and licences. */' --outfile="$static/vendor.js" --log-level=warning
cp node_modules/uplot/dist/uPlot.min.css "$static/vendor.css"
{
    echo "vendor.js and vendor.css are made by tools/vendor-page.sh with $bundler. Their SHA-256:"
    (cd "$static" && sha256sum vendor.js vendor.css)
    for library in "${libraries[@]}"; do
        name=${library%@*}
        echo
        echo "== $library, integrity in the npm registry:"
        node -p "require('./package-lock.json').packages['node_modules/$name'].integrity"
        echo
        cat "node_modules/$name/LICENSE"
    done
} >"$static/vendor.txt"
echo "==> $static/vendor.js, $(gzip -c "$static/vendor.js" | wc -c) bytes compressed"
