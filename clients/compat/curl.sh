#!/bin/sh
# curl through Hermes: an answer with Hermes's headers, a stream, an error.
set -eu

curl -s -D - http://127.0.0.1:8766/v1/chat/completions \
  -d '{"model": "auto", "messages": [{"role": "user", "content": "hello there"}]}' | grep -i -o -e "^x-hermes-tier.*" -e '"content":"[^"]*"'
curl -s -N http://127.0.0.1:8766/v1/chat/completions \
  -d '{"model": "auto", "stream": true, "messages": [{"role": "user", "content": "hello there"}]}' | grep DONE
curl -s http://127.0.0.1:8766/v1/chat/completions -d '{"model": "auto"}' | grep -o '"type":"[a-z_]*"'
