"""OpenAI's client for Python through Hermes: an answer, a stream, a tool call, the list of models."""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8766/v1", api_key="unused")

answer = client.chat.completions.with_raw_response.create(
    model="auto", messages=[{"role": "user", "content": "hello there"}]
)
print("tier:", answer.headers["x-hermes-tier"], "model:", answer.headers["x-hermes-model"])
print("answer:", answer.parse().choices[0].message.content)

stream = client.chat.completions.create(
    model="auto", messages=[{"role": "user", "content": "please debug my server script"}], stream=True
)
pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
print("stream:", len(pieces), "pieces:", "".join(pieces)[:60])

tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}
called = client.chat.completions.create(
    model="auto", messages=[{"role": "user", "content": "use the clock tool"}], tools=[tool]
)
print("tool calls:", [call.function.name for call in called.choices[0].message.tool_calls or []])
print("models:", [model.id for model in client.models.list()][:3])
