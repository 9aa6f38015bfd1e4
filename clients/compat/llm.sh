#!/bin/sh
# The `llm` command through Hermes: an answer, a stream, a conversation that goes on.
set -eu
folder=$(llm logs path | xargs -d '\n' dirname)
mkdir -p "$folder"
cat > "$folder/extra-openai-models.yaml" <<'YAML'
- model_id: hermes
  model_name: auto
  api_base: http://127.0.0.1:8766/v1
YAML

llm -m hermes --no-stream "hello there"
llm -m hermes "please debug my server script" | head -c 60
echo
llm -m hermes --continue "and now?" | head -c 60
echo
