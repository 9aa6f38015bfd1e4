// OpenAI's own client for Node, driven by a test: each line of the input asks for one scenario, each line of the output
// tells what came of it.
//
//   {"scenario": "text", "baseURL": "http://…/v1", …}   ->   {"result": …}   or   {"raised": {"name": …, …}}
//
// Nothing is judged here: the test knows what the provider said, and what a user of the client should see.

import { createInterface } from "node:readline";

import OpenAI, * as sdk from "openai";
import { makeParseableResponseFormat } from "openai/lib/parser";

const scenarios = {
  // A whole answer, with what the client knows of its HTTP side.
  async create({ client, body, options }) {
    const { data, response } = await client.chat.completions.create(body, options).withResponse();
    return { completion: data, requestId: data._request_id, headers: Object.fromEntries(response.headers) };
  },

  // Every chunk of a stream, as the client gives them.
  async stream({ client, body, options }) {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) {
      chunks.push(chunk);
    }
    return chunks;
  },

  // What was seen of a stream before it failed.
  async streamUntilItFails({ client, body }) {
    const seen = [];
    try {
      for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
        seen.push(chunk.choices[0]?.delta.content ?? null);
      }
    } catch (error) {
      return { seen, raised: told(error) };
    }
    return { seen, raised: null };
  },

  // The client's own putting together of a stream, tool calls included.
  async streamHelper({ client, body }) {
    return client.chat.completions.stream(body).finalChatCompletion();
  },

  // The client's own loop: it asks, calls the functions, and asks again with their results.
  async runTools({ client, body, results }) {
    const called = [];
    const tools = body.tools.map((tool) => ({
      ...tool,
      function: {
        ...tool.function,
        parse: JSON.parse,
        function: (args) => {
          called.push([tool.function.name, args]);
          return results[tool.function.name];
        },
      },
    }));
    const text = await client.chat.completions.runTools({ ...body, tools }).finalContent();
    return { called, text };
  },

  // An answer in a schema, parsed by the client.
  async parse({ client, body }) {
    const response_format = makeParseableResponseFormat(body.response_format, JSON.parse);
    const completion = await client.chat.completions.parse({ ...body, response_format });
    return completion.choices[0].message.parsed;
  },

  // Leaves while it waits for a whole answer.
  async abort({ client, body, afterMs }) {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), afterMs);
    return client.chat.completions.create(body, { signal: controller.signal });
  },

  // Leaves when the first content has come.
  async abortStream({ client, body }) {
    const stream = await client.chat.completions.create({ ...body, stream: true });
    const seen = [];
    for await (const chunk of stream) {
      const text = chunk.choices[0]?.delta.content;
      if (text) {
        seen.push(text);
        break;
      }
    }
    return seen;
  },

  async models({ client }) {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    return { names, one: await client.models.retrieve("auto") };
  },

  async model({ client, id }) {
    return client.models.retrieve(id);
  },
};

/** An error as its user sees it: the client's classes that it is an instance of, the most special one first. */
function told(error) {
  const classes = [];
  for (let kind = error.constructor; kind && kind.name; kind = Object.getPrototypeOf(kind)) classes.push(kind.name);
  return {
    name: classes[0],
    classes: classes.filter((name) => name in sdk),
    status: error.status ?? null,
    code: error.code ?? null,
    type: error.type ?? null,
    param: error.param ?? null,
    body: error.error ?? null,
    requestId: error.requestID ?? null,
    message: String(error.message),
  };
}

async function answer({ scenario, baseURL, timeoutMs, maxRetries = 0, ...rest }) {
  const client = new OpenAI({ baseURL, apiKey: "dummy", maxRetries, timeout: timeoutMs ?? 10_000 });
  try {
    return { result: (await scenarios[scenario]({ client, ...rest })) ?? null };
  } catch (error) {
    return { raised: told(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
