#!/bin/sh
# Installs other gateways for `benchmarks/overhead.py --peers`, into build/peers/ and nowhere else: LiteLLM's proxy in a
# virtual environment, Portkey's gateway as an npm package. Either may be missing; it is left out then.
#
#     sh benchmarks/peers.sh                            the releases that docs/performance.md has figures of
#     LITELLM='litellm[proxy]' PORTKEY='@portkey-ai/gateway' sh benchmarks/peers.sh
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/peers
PYTHON=${PYTHON:-$(command -v python3.11 || command -v python3)}
[ -x build/peers/litellm/bin/python ] || "$PYTHON" -m venv build/peers/litellm
build/peers/litellm/bin/python -m pip install --quiet --disable-pip-version-check "${LITELLM:-litellm[proxy]==1.108.7}" ||
    echo 'LiteLLM could not be installed; it will be left out'
if command -v npm >/dev/null; then
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/peers/portkey \
        "${PORTKEY:-@portkey-ai/gateway@1.15.2}" || echo "Portkey's gateway could not be installed; it will be left out"
else
    echo "npm not found: Portkey's gateway will be left out (on Debian: apt-get install nodejs npm)"
fi
