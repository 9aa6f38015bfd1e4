"""LangChain through Hermes: an answer, a stream, a tool call."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="auto", base_url="http://127.0.0.1:8766/v1", api_key="unused")

answer = model.invoke("hello there")
print("answer:", answer.content, "| tokens:", answer.usage_metadata["total_tokens"])

pieces = [piece.content for piece in model.stream("please debug my server script") if piece.content]
print("stream:", len(pieces), "pieces:", "".join(pieces)[:60])


@tool
def clock() -> str:
    """What time it is."""
    return "noon"


called = model.bind_tools([clock]).invoke("use the clock tool")
print("tool calls:", [call["name"] for call in called.tool_calls])
