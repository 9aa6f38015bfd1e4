// A small OpenAI-compatible server around a GGUF model, by node-llama-cpp's prebuilt CPU binary: no compiler, no network.
//   MODEL=SmolLM2-135M-Instruct.Q4_1.gguf PORT=18080 node smollm_server.mjs

import http from "node:http";
import { getLlama, LlamaChatSession } from "node-llama-cpp";

const NAME = "smollm2-135m";
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: process.env.MODEL });
const context = await model.createContext({ contextSize: 1024, threads: 1 });
const sequence = context.getSequence();
let turn = Promise.resolve(); // one request after another: there is one sequence

async function answer(request, response) {
  const system = request.messages.find(({ role }) => role === "system")?.content;
  const question = request.messages.filter(({ role }) => role === "user").pop().content;
  await sequence.clearHistory();
  const before = sequence.tokenMeter.getState();
  const session = new LlamaChatSession({ contextSequence: sequence, systemPrompt: system });
  const id = `chatcmpl-${Date.now()}`;
  const event = (more) => {
    const whole = { id, object: "chat.completion.chunk", created: Math.floor(Date.now() / 1000), model: NAME, ...more };
    response.write(`data: ${JSON.stringify(whole)}\n\n`);
  };
  const piece = (delta, reason) => event({ choices: [{ index: 0, delta, finish_reason: reason }] });
  if (request.stream) response.setHeader("content-type", "text/event-stream");
  const text = await session.prompt(question, {
    maxTokens: request.max_tokens ?? 32,
    temperature: request.temperature ?? 0,
    onTextChunk: request.stream ? (content) => piece({ content }, null) : undefined,
  });
  const { usedInputTokens, usedOutputTokens } = sequence.tokenMeter.diff(before);
  const total = usedInputTokens + usedOutputTokens;
  const usage = { prompt_tokens: usedInputTokens, completion_tokens: usedOutputTokens, total_tokens: total };
  session.dispose({ disposeSequence: false });
  if (request.stream) {
    piece({}, "stop");
    if (request.stream_options?.include_usage) event({ choices: [], usage });
    response.end("data: [DONE]\n\n");
    return;
  }
  const message = { role: "assistant", content: text };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ id, object: "chat.completion", created: 1, model: NAME, choices, usage }));
}

http
  .createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    turn = turn
      .then(() => answer(JSON.parse(body), response))
      .catch((error) => {
        if (!response.headersSent) response.statusCode = 500;
        response.end(JSON.stringify({ error: { message: String(error) } }));
      });
  })
  .listen(Number(process.env.PORT), "127.0.0.1", () => console.log("ready"));
