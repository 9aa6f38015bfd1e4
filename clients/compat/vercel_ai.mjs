// Vercel's AI SDK through Hermes: an answer, a stream, a tool call.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const hermes = createOpenAICompatible({ name: "hermes", baseURL: "http://127.0.0.1:8766/v1", includeUsage: true });

const { text, usage } = await generateText({ model: hermes("auto"), prompt: "hello there" });
console.log("answer:", text, "| tokens:", usage.totalTokens);

const pieces = [];
for await (const piece of streamText({ model: hermes("auto"), prompt: "please debug my server script" }).textStream) {
  pieces.push(piece);
}
console.log("stream:", pieces.length, "pieces:", pieces.join("").slice(0, 60));

const clock = tool({ description: "What time it is", inputSchema: jsonSchema({ type: "object", properties: {} }) });
const { toolCalls } = await generateText({ model: hermes("auto"), prompt: "use the clock tool", tools: { clock } });
console.log("tool calls:", toolCalls.map((call) => call.toolName));
