"""LlamaIndex through Hermes: an answer and a stream."""

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(model="auto", api_base="http://127.0.0.1:8766/v1", api_key="unused", is_chat_model=True)

print("answer:", model.chat([ChatMessage(role="user", content="hello there")]).message.content)

question = [ChatMessage(role="user", content="please debug my server script")]
pieces = [piece.delta for piece in model.stream_chat(question) if piece.delta]
print("stream:", len(pieces), "pieces:", "".join(pieces)[:60])
