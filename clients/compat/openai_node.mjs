// OpenAI's client for Node through Hermes: an answer and a stream.

import OpenAI from "openai";

const client = new OpenAI({ baseURL: "http://127.0.0.1:8766/v1", apiKey: "unused" });

const messages = [{ role: "user", content: "hello there" }];
const answer = await client.chat.completions.create({ model: "auto", messages });
console.log("answer:", answer.choices[0].message.content);

const pieces = [];
for await (const chunk of await client.chat.completions.create({ model: "auto", messages, stream: true })) {
  pieces.push(chunk.choices[0]?.delta?.content ?? "");
}
console.log("stream:", pieces.length, "pieces:", pieces.join("").slice(0, 60));
