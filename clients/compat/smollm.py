"""OpenAI's client through Hermes to a real model on this machine, SmolLM2-135M: are its tokens counted as it counts?"""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8766/v1", api_key="unused")
messages = [{"role": "user", "content": "Name three fruits."}]

answer = client.chat.completions.create(model="auto", messages=messages, max_tokens=24, temperature=0)
print("answer:", answer.choices[0].message.content.replace("\n", " "), "| tokens:", answer.usage.total_tokens)

pieces = []
for chunk in client.chat.completions.create(
    model="auto",
    messages=messages,
    max_tokens=24,
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
):
    if chunk.choices and chunk.choices[0].delta.content:
        pieces.append(chunk.choices[0].delta.content)
    usage = chunk.usage
print("stream:", len(pieces), "pieces:", "".join(pieces).replace("\n", " "), "| tokens:", usage.total_tokens)
assert "".join(pieces) == answer.choices[0].message.content
assert usage.total_tokens == answer.usage.total_tokens
