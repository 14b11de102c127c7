import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock, Random } from "../../protocol/clock.ts";
import { T4tError } from "../../protocol/errors.ts";
import { collectAnswers, streamAnswers } from "./answers.ts";
import { CutError, type TokenHook } from "./completion.ts";
import { type BackendStats, createCounters } from "./counters.ts";
import type { Engine } from "./engine.ts";
import { decodePath, pathOf, requestIdOf, requireMethod, sendJson } from "./http-exchange.ts";
import { type ParsedRequest, parseChatRequest, parseTextRequest } from "./openai-request.ts";
import { readBody } from "./read-body.ts";
import { SlotGate } from "./slot-gate.ts";

export interface BackendOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Stays open when the server closes: it may serve others. */
  readonly engine: Engine;
  /** At least one. All are the same engine under other names. */
  readonly modelIds: readonly string[];
  readonly clock: Clock;
  /** For the ids of answers. */
  readonly random: Random;
  /** Requests that are worked on at the same time; the engine's own number by default. */
  readonly slots?: number;
  /** Requests that may wait for a slot; the next gets 503. 1,024 by default, 0 = nobody waits. */
  readonly maxWaiting?: number;
  /** Before every token of the answer, milliseconds; 0 by default. */
  readonly tokenDelayMs?: number;
  /** Before the first token, for each uncached token of the prompt, milliseconds; 0 by default. */
  readonly promptTokenDelayMs?: number;
  /** Asked before each token; can hold an answer or break its connection. */
  readonly beforeToken?: TokenHook;
  /** Bearer token that the /v1 routes ask for; none by default. */
  readonly apiKey?: string;
  /** Bytes; 16 MiB by default. */
  readonly maxBodyBytes?: number;
}

export interface Backend {
  /** `http://host:port`, without a slash at the end. */
  readonly url: string;
  stats(): BackendStats;
  /** What `/health` answers: 200 or 503. The other routes go on. */
  setHealthy(healthy: boolean): void;
  /** Stops listening, breaks what is in work and waits until the engine has let go of it. Idempotent. */
  close(): Promise<void>;
}

/** Longer than the pool timeouts of callers, so that they, not we, close idle sockets. */
const keepAliveTimeoutMs = 120_000;
const defaultMaxBodyBytes = 16 * 1024 * 1024;
const defaultMaxWaiting = 1024;

/**
 * An OpenAI-compatible inference server over an embedded engine: chat and text completions, streamed or not, models, health. Throws
 * when it cannot listen.
 */
export async function startBackend(options: BackendOptions): Promise<Backend> {
  const service = new BackendService(options);
  const server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, (request, response) => {
    service.handle(request, response);
  });
  server.listen(options.port, options.host);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  return {
    url: `http://${options.host.includes(":") ? `[${options.host}]` : options.host}:${port}`,
    stats: () => service.stats(),
    setHealthy: (healthy) => {
      service.healthy = healthy;
    },
    close() {
      closing ??= (async () => {
        const closed = once(server, "close");
        server.close();
        server.closeAllConnections();
        await closed;
        await service.idle();
      })();
      return closing;
    },
  };
}

class BackendService {
  healthy = true;
  readonly #options: BackendOptions;
  readonly #slots: number;
  readonly #gate: SlotGate;
  readonly #startedAt: number;
  readonly #counters = createCounters();
  readonly #inWork = new Set<Promise<void>>();

  constructor(options: BackendOptions) {
    this.#options = options;
    this.#slots = options.slots ?? options.engine.parallel;
    this.#gate = new SlotGate(this.#slots);
    this.#startedAt = Math.floor(options.clock.now() / 1000);
  }

  stats(): BackendStats {
    return { ...this.#counters, active: this.#gate.held, waiting: this.#gate.waiting };
  }

  /** Resolves when nothing is in work. */
  async idle(): Promise<void> {
    while (this.#inWork.size > 0) await Promise.all(this.#inWork);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const work = this.#answer(request, response).finally(() => this.#inWork.delete(work));
    this.#inWork.add(work);
  }

  /** Never throws. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = requestIdOf(request) ?? `req_${this.#randomHex()}`;
    response.setHeader("x-request-id", requestId);
    const left = new AbortController();
    response.once("close", () => {
      if (!response.writableFinished) left.abort(new Error("the client left"));
    });
    // A socket that breaks while we write is a client that left; "close" follows.
    response.on("error", () => undefined);
    try {
      await this.#route(request, response, requestId, left.signal);
    } catch (error) {
      this.#fail(response, error, left.signal);
    }
  }

  async #route(
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
    signal: AbortSignal,
  ): Promise<void> {
    const path = pathOf(request);
    if (path === "/health") {
      requireMethod(request, "GET");
      sendJson(
        response,
        this.healthy ? 200 : 503,
        JSON.stringify({ status: this.healthy ? "ok" : "unavailable", engine: this.#options.engine.name }),
      );
      return;
    }
    this.#authenticate(request);
    if (path === "/v1/chat/completions" || path === "/v1/completions") {
      requireMethod(request, "POST");
      const body = await readBody(request, this.#options.maxBodyBytes ?? defaultMaxBodyBytes, signal);
      const parsed = path === "/v1/completions" ? parseTextRequest(body) : parseChatRequest(body);
      await this.#complete(parsed, response, requestId, signal);
    } else if (path === "/v1/models") {
      requireMethod(request, "GET");
      const data = this.#options.modelIds.map((id) => this.#modelBody(id));
      sendJson(response, 200, JSON.stringify({ object: "list", data }));
    } else if (path.startsWith("/v1/models/")) {
      requireMethod(request, "GET");
      const id = decodePath(path.slice("/v1/models/".length));
      this.#requireModel(id);
      sendJson(response, 200, JSON.stringify(this.#modelBody(id)));
    } else {
      throw new T4tError("unknown_url", `unknown URL: ${request.method ?? "GET"} ${path}`);
    }
  }

  async #complete(
    parsed: ParsedRequest,
    response: ServerResponse,
    requestId: string,
    signal: AbortSignal,
  ): Promise<void> {
    this.#requireModel(parsed.model);
    this.#requireRoom(parsed);
    const counters = this.#counters;
    counters.requests += 1;
    const request = counters.requests;
    const { clock, engine, tokenDelayMs = 0, promptTokenDelayMs = 0, beforeToken } = this.#options;
    if (this.#gate.held >= this.#slots && this.#gate.waiting >= (this.#options.maxWaiting ?? defaultMaxWaiting)) {
      throw new T4tError("server_is_overloaded", "every slot is taken and the line is full", { retryAfterSeconds: 1 });
    }
    const release = await this.#gate.acquire(signal);
    counters.peakActive = Math.max(counters.peakActive, this.#gate.held);
    try {
      const context = {
        kind: parsed.kind,
        id: `${parsed.kind === "chat" ? "chatcmpl" : "cmpl"}-${this.#randomHex()}`,
        created: Math.floor(clock.now() / 1000),
        model: parsed.model,
        fingerprint: `t4t-${engine.name}`,
      };
      const pace = { clock, tokenDelayMs, promptTokenDelayMs };
      const job = { engine, parsed, context, pace, counters, beforeToken, request, requestId, signal };
      if (parsed.stream) await streamAnswers(job, response);
      else await collectAnswers(job, response);
      counters.completed += 1;
    } finally {
      release();
    }
  }

  #fail(response: ServerResponse, error: unknown, signal: AbortSignal): void {
    if (signal.aborted) {
      this.#counters.aborted += 1;
      return;
    }
    if (error instanceof CutError) {
      this.#counters.cut += 1;
      // What was written before the cut still arrives.
      response.socket?.destroySoon();
      return;
    }
    const known = error instanceof T4tError ? error : new T4tError("internal_error", "the model failed");
    if (known.row.status >= 500) this.#counters.failed += 1;
    const body = JSON.stringify(known.toBody());
    if (response.headersSent) {
      response.end(`data: ${body}\n\n`);
      return;
    }
    for (const [name, value] of Object.entries(known.toHeaders())) response.setHeader(name, value);
    sendJson(response, known.row.status, body);
  }

  #authenticate(request: IncomingMessage): void {
    const { apiKey } = this.#options;
    if (apiKey === undefined) return;
    const given = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
    if (timingSafeEqual(sha256(given), sha256(apiKey))) return;
    throw new T4tError("invalid_api_key", "incorrect API key provided");
  }

  #requireModel(id: string): void {
    if (this.#options.modelIds.includes(id)) return;
    throw new T4tError("model_not_found", `the model '${id}' does not exist`, { param: "model" });
  }

  #requireRoom(parsed: ParsedRequest): void {
    const { contextLength } = this.#options.engine;
    const longest = parsed.prompts.reduce((length, prompt) => Math.max(length, prompt.length), 0);
    if (longest < contextLength) return;
    throw new T4tError(
      "context_length_exceeded",
      `the prompt has ${longest} tokens, and this model takes ${contextLength} with the answer`,
      { param: parsed.kind === "chat" ? "messages" : "prompt" },
    );
  }

  #modelBody(id: string): Record<string, unknown> {
    const { contextLength } = this.#options.engine;
    return { id, object: "model", created: this.#startedAt, owned_by: "t4t", max_model_len: contextLength };
  }

  #randomHex(): string {
    const part = () =>
      Math.floor(this.#options.random() * 2 ** 32)
        .toString(16)
        .padStart(8, "0");
    return part() + part() + part() + part();
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
