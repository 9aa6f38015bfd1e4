// Drives clients/aiClient.ts, in Node or in Deno: a line of JSON in is one call, a line out is what came of it.
// Its first argument is the client's file.

import process from "node:process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { callAI, streamAI, toEventStream } = await import(pathToFileURL(process.argv[2]).href);

/** The provider as an application would ask it; says which model it was asked for. */
function provider(kind, asked) {
  const answerOf = (request) => {
    asked.push({ model: request.model, role: request.role, messages: request.messages });
    return { content: "directly", model: request.model };
  };
  async function* stream(request) {
    const { model } = answerOf(request);
    for (const content of ["di", "rect"]) yield { content, model };
  }
  const whole = { callProviderDirect: async (request) => answerOf(request) };
  return { none: {}, whole, stream: { ...whole, streamProviderDirect: stream } }[kind];
}

async function act(what, request, options, most, got) {
  if (what === "call") {
    got.answer = await callAI(request, options);
  } else if (what === "events") {
    got.text = await new Response(toEventStream(streamAI(request, options))).text();
  } else {
    got.pieces = [];
    for await (const piece of streamAI(request, options)) {
      got.pieces.push(piece);
      if (got.pieces.length === most) break;
    }
  }
}

async function answer({ what, request, options, direct, env = {}, abortAfterMs, most }) {
  const got = { direct: [], fallbacks: [] };
  const aborter = new AbortController();
  if (abortAfterMs !== undefined) setTimeout(() => aborter.abort(new Error("the caller has left")), abortAfterMs);
  const onFallback = ({ reason, error, model }) => got.fallbacks.push({ reason, message: error?.message ?? null, model });
  Object.assign(process.env, env);
  const beganAt = performance.now();
  try {
    const whole = { ...options, ...provider(direct, got.direct), onFallback };
    await act(what, { ...request, signal: aborter.signal }, whole, most, got);
  } catch (error) {
    const { name, message, status = null, code = null, received = null } = error;
    got.raised = { name, message, status, code, received };
  } finally {
    for (const name of Object.keys(env)) delete process.env[name];
  }
  return { ...got, tookS: (performance.now() - beganAt) / 1000 };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
