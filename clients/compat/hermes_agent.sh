#!/bin/sh
# Hermes Agent with Hermes as its custom provider: an answer, a fallback, and a stream that breaks and is taken up again.
set -eu
mkdir -p "$HOME/.hermes"
cat > "$HOME/.hermes/config.yaml" <<'YAML'
model:
  default: auto
  provider: custom
  base_url: http://127.0.0.1:8766/v1
  api_key: unused
YAML

hermes -z "hello there"
hermes -z "demo:503 tell me a story"
hermes -z "demo:break tell me a story"
