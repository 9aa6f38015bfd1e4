/**
 * Calls an LLM through Hermes, and the provider itself when Hermes cannot be had.
 *
 *     import { callAI, configureAI } from "./aiClient.ts";
 *
 *     configureAI({ callProviderDirect });             // once; yours, see `DirectRequest`
 *     const { content, model } = await callAI({
 *       messages: [{ role: "user", content: "Summarise this ticket: …" }],
 *       meta: { functionName: "summarise-ticket", userId: "alice" },
 *     });
 *
 * For Deno, Node 18 or newer and edge functions; no dependency. The environment says where Hermes is:
 *
 *     HERMES_URL            https://hermes.example.com, or the same with /api
 *     HERMES_SERVICE_KEY    a key of the scope `gateway`
 *     AI_GATEWAY_ENABLED    "false" bypasses Hermes at once (default: "true")
 *
 * What it promises:
 *   - One deadline of 45 s for Hermes's answer, or for the first token of its stream.
 *   - Any failure before that (network, status, body, a stream without a token) ends in `callProviderDirect` with the
 *     model that is pinned in Hermes for the role. Only what the caller aborts, and a refusal for the data's residency,
 *     is never sent to a provider behind Hermes's back: see `finalCodes`.
 *   - After the first token nothing begins anew: a stream that breaks is told as `AIStreamBroken`.
 */

export type Role = "chat" | "reasoning" | (string & Record<never, never>);

export interface Message {
  role: string;
  content?: unknown;
  [field: string]: unknown;
}

export interface AIRequest {
  messages: Message[];
  /** Which pinned model: "chat" where nothing is said. */
  role?: Role;
  responseFormat?: "json_object" | "text" | Record<string, unknown>;
  temperature?: number;
  maxTokens?: number;
  tools?: unknown[];
  toolChoice?: unknown;
  /** Knowledge to look up, as Hermes's `context_hint`. */
  contextHint?: string;
  meta: { functionName: string; useCase?: string; userId?: string };
  /** Ends the call; then there is no fallback either. */
  signal?: AbortSignal;
}

/** What a direct call gets: the request, and the model that is pinned for its role. */
export interface DirectRequest extends AIRequest {
  model: string;
}

export interface AIAnswer {
  content: string;
  model: string;
  /** OpenAI's tool calls, where the model made some; in a stream the pieces of them. */
  toolCalls?: unknown[];
}

export interface AIFallback {
  /** `off`: switched off by AI_GATEWAY_ENABLED or by the pin `ai.gateway.enabled`; `failed`: see `error`. */
  reason: "off" | "failed";
  error?: AIError;
  functionName: string;
  model: string;
}

export interface AIOptions {
  /** Asks the provider itself. Without it a failure of Hermes is thrown. */
  callProviderDirect?: (request: DirectRequest) => Promise<AIAnswer>;
  /** The same for `streamAI`; without it the whole answer of `callProviderDirect` is one piece. */
  streamProviderDirect?: (request: DirectRequest) => AsyncIterable<AIAnswer>;
  /** The model that is pinned for a role; without it that of Hermes's `/v1/pins`, whose last answer is kept. */
  getModel?: (role: Role) => Promise<string> | string;
  /** Whether Hermes may be used; without it `ai.gateway.enabled` of `/v1/pins`. */
  isEnabled?: () => Promise<boolean> | boolean;
  /** Models by role for a process that has never reached `/v1/pins`. */
  models?: Record<string, string>;
  /** Refusals of Hermes that are thrown instead of going round it. */
  finalCodes?: readonly string[];
  /** Told of every call that does not go through Hermes; without it a warning on the console. */
  onFallback?: (fallback: AIFallback) => void;
  /** These stand in for the environment. */
  url?: string;
  serviceKey?: string;
  enabled?: boolean;
  deadlineMs?: number;
  fetch?: typeof fetch;
}

/** A call that has failed; `status` and `code` are those of Hermes's answer, if there was one. */
export class AIError extends Error {
  override name = "AIError";
  readonly status: number | undefined;
  readonly code: string | undefined;

  constructor(message: string, more: { status?: number; code?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.status = more.status;
    this.code = more.code;
  }
}

/** A stream that broke after its first token; `received` is the text that had come. */
export class AIStreamBroken extends AIError {
  override name = "AIStreamBroken";
  readonly received: string;

  constructor(received: string, cause: AIError) {
    super(`The stream broke off: ${cause.message}`, { code: cause.code, cause });
    this.received = received;
  }
}

const DEADLINE_MS = 45_000;
const PINS_DEADLINE_MS = 2_000;
const PINS_FRESH_MS = 30_000;
const PINS_RETRY_MS = 5_000;
const FINAL_CODES: readonly string[] = ["residency_blocked"];
const INTERRUPTED = ": hermes stream interrupted";

let standard: AIOptions = {};

/** Sets what every later call takes for granted. */
export function configureAI(options: AIOptions): void {
  standard = options;
}

/**
 * One answer.
 *
 * @throws AIError when neither Hermes nor the provider answers and when Hermes refuses for good;
 *   the signal's reason when the caller aborts; what `callProviderDirect` throws.
 */
export async function callAI(request: AIRequest, options: AIOptions = {}): Promise<AIAnswer> {
  const call = new Call(request, options);
  const failed = (await call.isOff()) ? null : await call.throughHermes();
  return failed !== null && "content" in failed ? failed : await call.direct(failed);
}

/**
 * The same answer piece by piece: a text of each piece, and the model.
 *
 * @throws AIStreamBroken when the stream breaks after its first token; before it as `callAI` does.
 */
export async function* streamAI(request: AIRequest, options: AIOptions = {}): AsyncGenerator<AIAnswer, void, void> {
  const call = new Call(request, options);
  let failed: AIError | null = null;
  if (!(await call.isOff())) {
    let received = "";
    let hasBegun = false;
    try {
      for await (const piece of call.pieces()) {
        hasBegun = true;
        received += piece.content;
        yield piece;
      }
      return;
    } catch (error) {
      failed = call.failure(error);
      if (hasBegun) throw new AIStreamBroken(received, failed);
    }
  }
  yield* call.directPieces(failed);
}

/** The pieces as the event stream that browsers know from OpenAI; a broken stream ends with an error event. */
export function toEventStream(pieces: AsyncGenerator<AIAnswer, void, void>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const event = (payload: unknown) => encoder.encode(`data: ${JSON.stringify(payload)}\n\n`);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await pieces.next();
        if (!done) {
          const { content, model, toolCalls } = value;
          const delta = toolCalls ? { content, tool_calls: toolCalls } : { content };
          controller.enqueue(event({ model, choices: [{ index: 0, delta }] }));
          return;
        }
        controller.enqueue(encoder.encode("data: [DONE]\n\n"));
      } catch (error) {
        const code = error instanceof AIError ? (error.code ?? null) : null;
        const told = { message: "The stream broke off.", type: "upstream_error", param: null, code };
        controller.enqueue(event({ error: told }));
      }
      controller.close();
    },
    async cancel() {
      await pieces.return();
    },
  });
}

/** One request on its way: to Hermes, and from there to the provider if need be. */
class Call {
  private readonly request: AIRequest;
  private readonly options: AIOptions;
  private readonly role: Role;
  private readonly url: string;
  private readonly key: string;
  private readonly pins: PinCache;

  constructor(request: AIRequest, options: AIOptions) {
    this.request = request;
    this.options = { ...standard, ...options };
    this.role = request.role ?? "chat";
    this.url = baseOf(this.options.url ?? environment("HERMES_URL") ?? "");
    this.key = this.options.serviceKey ?? environment("HERMES_SERVICE_KEY") ?? "";
    this.pins = PinCache.of(this.url, this.key, this.options.fetch ?? fetch);
  }

  /** Whether Hermes is bypassed. Pins that are old are not waited for, unless they say that it is. */
  async isOff(): Promise<boolean> {
    this.request.signal?.throwIfAborted();
    if (this.isOffHere()) return true;
    if (this.options.isEnabled) return !(await this.options.isEnabled());
    const renewed = this.pins.renew();
    if (this.pins.latest?.isEnabled === false) await renewed;
    return this.pins.latest?.isEnabled === false;
  }

  /** Hermes's answer, or why there is none. */
  async throughHermes(): Promise<AIAnswer | AIError> {
    const deadline = new Deadline(this.options.deadlineMs ?? DEADLINE_MS, this.request.signal);
    try {
      const response = await this.post("/v1/completions", deadline.signal);
      return answerOf(await response.text(), response.headers);
    } catch (error) {
      return this.failure(error);
    } finally {
      deadline.end();
    }
  }

  /** The pieces of Hermes's stream. Between two of them there may be as much time as before the first. */
  async *pieces(): AsyncGenerator<AIAnswer, void, void> {
    const limitMs = this.options.deadlineMs ?? DEADLINE_MS;
    const deadline = new Deadline(limitMs, this.request.signal);
    try {
      const response = await this.post("/v1/completions/stream", deadline.signal);
      if (!response.body) throw new AIError("Hermes's stream has no body");
      const model = response.headers.get("x-hermes-model") ?? "";
      let isWhole = false;
      for await (const line of linesOf(response.body)) {
        if (line.startsWith(INTERRUPTED)) throw new AIError("the provider broke off", { code: "upstream_error" });
        const data = dataOf(line);
        if (data === "[DONE]") return;
        if (!data) continue;
        const { piece, isThought, isLast } = pieceOf(data, model);
        isWhole ||= isLast;
        if (piece || isThought) deadline.restart(limitMs);
        if (piece) yield piece;
      }
      if (!isWhole) throw new AIError("Hermes's stream ended too early");
    } finally {
      deadline.end();
    }
  }

  /** The provider's own answer. */
  async direct(failed: AIError | null): Promise<AIAnswer> {
    if (!this.options.callProviderDirect) {
      throw failed ?? new AIError("Hermes is switched off, and there is no callProviderDirect");
    }
    return await this.options.callProviderDirect(await this.directRequest(failed));
  }

  /** The provider's own stream, or its whole answer as one piece. */
  async *directPieces(failed: AIError | null): AsyncGenerator<AIAnswer, void, void> {
    if (!this.options.streamProviderDirect) {
      yield await this.direct(failed);
      return;
    }
    yield* this.options.streamProviderDirect(await this.directRequest(failed));
  }

  /** An error as what it means for this call: throws those after which nobody else may be asked. */
  failure(error: unknown): AIError {
    this.request.signal?.throwIfAborted();
    const unreachable = () => new AIError(`Hermes cannot be reached: ${String(error)}`, { cause: error });
    const told = error instanceof AIError ? error : unreachable();
    if (told.code && (this.options.finalCodes ?? FINAL_CODES).includes(told.code)) throw told;
    return told;
  }

  private isOffHere(): boolean {
    if (this.options.enabled !== undefined) return !this.options.enabled;
    return ["false", "0", "off", "no"].includes((environment("AI_GATEWAY_ENABLED") ?? "").trim().toLowerCase());
  }

  private async directRequest(failed: AIError | null): Promise<DirectRequest> {
    const model = await this.model();
    const functionName = this.request.meta.functionName;
    const fallback: AIFallback = failed
      ? { reason: "failed", error: failed, functionName, model }
      : { reason: "off", functionName, model };
    (this.options.onFallback ?? warn)(fallback);
    return { ...this.request, role: this.role, model };
  }

  /** The pinned model. What is in force now goes before what was, and that before what is written in the program. */
  private async model(): Promise<string> {
    if (this.options.getModel) return await this.options.getModel(this.role);
    const written = this.options.models?.[this.role];
    if (!(this.isOffHere() && written)) await this.pins.renew(); // switched off here: not even asked for its pins
    const model = this.pins.latest?.models[this.role] ?? written;
    if (!model) throw new AIError(`No model is known for the role ${this.role}: give getModel or models`);
    return model;
  }

  private async post(path: string, signal: AbortSignal): Promise<Response> {
    if (!this.url || !this.key) throw new AIError("HERMES_URL and HERMES_SERVICE_KEY are not both set");
    const headers = { authorization: `Bearer ${this.key}`, "content-type": "application/json" };
    const body = JSON.stringify(bodyOf(this.request, this.role));
    const how: RequestInit = { method: "POST", headers, body, signal, redirect: "manual" };
    const response = await (this.options.fetch ?? fetch)(this.url + path, how);
    if (!response.ok) throw refusalOf(response.status, await response.text());
    return response;
  }
}

/** The pins of one Hermes, shared by all calls of this process. */
class PinCache {
  private static readonly all = new Map<string, PinCache>();
  latest: { models: Record<string, string>; isEnabled: boolean } | null = null;
  private readonly url: string;
  private readonly key: string;
  private readonly fetch: typeof fetch;
  private nextAtMs = 0;
  private renewal: Promise<void> | null = null;

  constructor(url: string, key: string, fetcher: typeof fetch) {
    this.url = url;
    this.key = key;
    this.fetch = fetcher;
  }

  static of(url: string, key: string, fetcher: typeof fetch): PinCache {
    const name = `${url} ${key}`;
    const found = PinCache.all.get(name) ?? new PinCache(url, key, fetcher);
    PinCache.all.set(name, found);
    return found;
  }

  /** Asks for them where they are old; one question at a time, and never an error: then the old ones stay. */
  async renew(): Promise<void> {
    if (!this.url || !this.key || (!this.renewal && Date.now() < this.nextAtMs)) return;
    this.renewal ??= this.ask().finally(() => {
      this.renewal = null;
    });
    await this.renewal;
  }

  private async ask(): Promise<void> {
    const deadline = new Deadline(PINS_DEADLINE_MS);
    const fetcher = this.fetch;
    try {
      const headers = { authorization: `Bearer ${this.key}` };
      const response = await fetcher(`${this.url}/v1/pins`, { headers, signal: deadline.signal, redirect: "manual" });
      const pins = JSON.parse(await response.text()) as Record<string, unknown>;
      if (!response.ok) throw new AIError("no pins", { status: response.status });
      this.latest = { models: modelsOf(pins), isEnabled: pins["ai.gateway.enabled"] !== false };
      this.nextAtMs = Date.now() + PINS_FRESH_MS;
    } catch {
      this.nextAtMs = Date.now() + PINS_RETRY_MS;
    } finally {
      deadline.end();
    }
  }
}

/** Aborts its signal when time is up, or when the caller aborts. By hand: Node 18 has no `AbortSignal.any`. */
class Deadline {
  private readonly controller = new AbortController();
  private readonly outer: AbortSignal | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly onAbort = () => this.controller.abort(this.outer?.reason);

  constructor(limitMs: number, outer?: AbortSignal) {
    this.outer = outer;
    outer?.addEventListener("abort", this.onAbort);
    if (outer?.aborted) this.onAbort();
    this.restart(limitMs);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  restart(limitMs: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.controller.abort(new AIError(`nothing came for ${limitMs / 1000} s`)), limitMs);
  }

  /** Gives everything back; what is still being read is let go. */
  end(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.onAbort);
    this.controller.abort();
  }
}

/** A variable of the environment; undefined where it is not set, empty, or not to be read. */
function environment(name: string): string | undefined {
  const world = globalThis as unknown as {
    Deno?: { env: { get(name: string): string | undefined } };
    process?: { env: Record<string, string | undefined> };
  };
  try {
    return (world.Deno ? world.Deno.env.get(name) : world.process?.env[name])?.trim() || undefined;
  } catch {
    return undefined; // Deno without --allow-env
  }
}

/** `https://host/api/` and `https://host/api/v1` mean `https://host/api`, under which Hermes answers too. */
function baseOf(url: string): string {
  return url.trim().replace(/\/+$/, "").replace(/\/v1$/, "");
}

/** The request as the gateway's contract has it. */
function bodyOf(request: AIRequest, role: Role): Record<string, unknown> {
  const { functionName, useCase, userId } = request.meta;
  return {
    messages: request.messages,
    role,
    response_format: request.responseFormat,
    temperature: request.temperature,
    max_tokens: request.maxTokens,
    tools: request.tools,
    tool_choice: request.toolChoice,
    context_hint: request.contextHint,
    metadata: { function_name: functionName, use_case: useCase, user_id: userId },
  };
}

function answerOf(text: string, headers: Headers): AIAnswer {
  const body = parsed(text);
  const message = at(body, "choices", 0, "message");
  const content = at(message, "content");
  const toolCalls = at(message, "tool_calls");
  if (typeof content !== "string" && !isFull(toolCalls)) throw new AIError("Hermes's answer has no content");
  const model = String(at(body, "model") ?? headers.get("x-hermes-model") ?? "");
  return { content: typeof content === "string" ? content : "", model, ...(isFull(toolCalls) ? { toolCalls } : {}) };
}

function pieceOf(data: string, served: string): { piece: AIAnswer | null; isThought: boolean; isLast: boolean } {
  const body = parsed(data);
  const error = at(body, "error");
  if (error) throw new AIError(String(at(error, "message") ?? "an error event"), { code: textOf(at(error, "code")) });
  const choice = at(body, "choices", 0);
  const content = at(choice, "delta", "content");
  const toolCalls = at(choice, "delta", "tool_calls");
  const said = typeof content === "string" ? content : "";
  const model = textOf(at(body, "model")) ?? served;
  const called = isFull(toolCalls) ? { toolCalls } : {};
  const piece = said || isFull(toolCalls) ? { content: said, model, ...called } : null;
  const thought = at(choice, "delta", "reasoning_content") ?? at(choice, "delta", "reasoning");
  return { piece, isThought: Boolean(thought), isLast: Boolean(at(choice, "finish_reason")) };
}

function refusalOf(status: number, text: string): AIError {
  let error: unknown;
  try {
    error = at(JSON.parse(text), "error");
  } catch {
    error = null; // a page of some proxy
  }
  const code = textOf(at(error, "code")) ?? textOf(at(error, "type"));
  const message = textOf(at(error, "message")) ?? "no reason given";
  return new AIError(`Hermes answered ${status}: ${message}`, { status, code });
}

function modelsOf(pins: Record<string, unknown>): Record<string, string> {
  const models: Record<string, string> = {};
  for (const [name, value] of Object.entries(pins)) {
    if (name.startsWith("model.") && typeof value === "string") models[name.slice("model.".length)] = value;
  }
  return models;
}

/** The lines of an event stream, without their ends. */
async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + decoder.decode(value, { stream: !done })).split(/\r?\n/);
      rest = done ? "" : (lines.pop() ?? "");
      yield* lines;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => undefined); // it may be broken already
  }
}

/** What a line of an event stream carries; Hermes and the providers put every event into one line. */
function dataOf(line: string): string {
  return line.startsWith("data:") ? line.slice("data:".length).trim() : "";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new AIError("Hermes's answer is no JSON", { cause });
  }
}

/** The value at a path, undefined where the path leads nowhere. */
function at(value: unknown, ...path: (string | number)[]): unknown {
  let here = value;
  for (const step of path) here = (here as Record<string | number, unknown> | null | undefined)?.[step];
  return here;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value ? value : undefined;
}

function isFull(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.length > 0;
}

function warn({ reason, error, functionName, model }: AIFallback): void {
  const why = reason === "off" ? "Hermes is switched off" : (error?.message ?? "Hermes failed");
  console.warn(`${functionName}: ${why}; the provider is asked directly for ${model}`);
}
