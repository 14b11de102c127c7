import type { ServerResponse } from "node:http";
import type { Clock } from "../../protocol/clock.ts";
import { T4tError } from "../../protocol/errors.ts";
import { formatSse, formatSseComment, sseContentType } from "../../protocol/sse.ts";
import type { Journal } from "../../store/journal.ts";
import { requireJson } from "../http/browser-guard.ts";
import type { HttpExchange } from "../http/http-server.ts";
import { readBody } from "../http/read-body.ts";
import { sendJson } from "../http/respond.ts";
import {
  type CompletionKind,
  decodeUtf8,
  parseJson,
  readCompletionRequest,
  refuseRepeatedMembers,
} from "../openai/completion-request.ts";
import { isObject } from "../openai/field-types.ts";
import { memberOf, skipSpace } from "../openai/json-spans.ts";
import { readWishes } from "../openai/request-headers.ts";
import { EventSink } from "./event-sink.ts";
import type { JobDocument } from "./job-document.ts";
import { droppedEvent, type JobEvents } from "./job-events.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobService } from "./job-service.ts";
import type { JobStore } from "./job-store.ts";
import { isJobId, jobSummary, jobView } from "./job-view.ts";

/** Options of the job routes. */
export interface JobRouteOptions {
  readonly service: JobService;
  readonly store: JobStore;
  readonly journal: Pick<Journal, "recentJobs">;
  readonly clock: Clock;
  readonly maxBodyBytes: number;
  readonly keepAliveMs: number;
  /** Longest time that a reader may not read while bytes wait for it, ms. */
  readonly clientStallMs: number;
}

const kinds: Readonly<Record<string, CompletionKind>> = { "chat.completions": "chat", completions: "text" };

/**
 * `POST /v1/jobs` with `{"type"?, "request": {…OpenAI body…}, "stream"?}`: 202 with the job's id, or its events when they are asked
 * for. A job runs to its end whether or not somebody listens; `POST /v1/jobs/{id}/cancel` ends it.
 */
export async function postJob(options: JobRouteOptions, exchange: HttpExchange): Promise<void> {
  const { request, response, requestId, requestIdGiven, owner } = exchange;
  requireJson(request.headers["content-type"]);
  const wishes = readWishes(request.headers);
  const text = decodeUtf8(await readBody(request, options.maxBodyBytes));
  const body = parseJson(text);
  if (!isObject(body)) throw new T4tError("invalid_json", "The request body must be a JSON object.");
  refuseRepeatedMembers(text);
  const type = body.type ?? "chat.completions";
  const kind = typeof type === "string" && Object.hasOwn(kinds, type) ? kinds[type] : undefined;
  if (kind === undefined) {
    throw new T4tError("invalid_value", `'type' must be one of ${Object.keys(kinds).join(", ")}.`, { param: "type" });
  }
  if (body.stream !== undefined && body.stream !== null && typeof body.stream !== "boolean") {
    throw new T4tError("invalid_value", "'stream' must be a boolean.", { param: "stream" });
  }
  const span = memberOf(text, skipSpace(text, 0), "request");
  if (span === undefined)
    throw new T4tError("missing_required_parameter", "Missing required parameter: 'request'.", { param: "request" });
  const inner = text.slice(span.valueStart, span.valueEnd);
  const completion = readCompletionRequest(kind, inner, body.request, Buffer.byteLength(inner));
  const { record, run } = options.service.submit({
    completion,
    wishes,
    requestId,
    requestIdGiven,
    owner,
    source: "jobs",
  });
  // The answer says that the job is taken: so it must be known after a crash.
  await record.save().catch((error: unknown) => {
    // Nobody runs it: it would count as open for good.
    record.finish({ status: "failed", code: "internal_error", message: "The gateway could not take the job." });
    record.active = false;
    throw error;
  });
  void run(new EventSink(record), new AbortController().signal);
  if (body.stream === true || accepts(request.headers.accept)) {
    await sendEvents(options, response, record, 0);
  } else {
    sendJson(response, 202, jobView(record.document), { location: `/v1/jobs/${record.id}`, "x-t4t-job-id": record.id });
  }
}

/** `GET /v1/jobs`: newest first, `limit` 1..100, `before` = `nextBefore` of the page before. */
export async function listJobs(options: JobRouteOptions, { request, response, owner }: HttpExchange): Promise<void> {
  const query = new URL(request.url ?? "/", "http://gateway").searchParams;
  const limit = numberOf(query, "limit", 20, 1, 100);
  const before = query.has("before") ? numberOf(query, "before", 0, 0, Number.MAX_SAFE_INTEGER) : undefined;
  const rows = await options.journal.recentJobs("gateway", limit, before);
  const documents = rows.map(({ document }) => JSON.parse(document) as JobDocument);
  sendJson(response, 200, {
    object: "list",
    data: documents.filter((document) => document.owner === owner).map(jobSummary),
    hasMore: rows.length === limit,
    nextBefore: rows.at(-1)?.updatedAt ?? null,
  });
}

/** `GET /v1/jobs/{id}`; the id of any of the request's jobs on chain does too. */
export async function getJob(options: JobRouteOptions, exchange: HttpExchange, id: string): Promise<void> {
  const record = await findRecord(options, exchange, id);
  sendJson(exchange.response, 200, jobView(record.document));
}

/** `POST /v1/jobs/{id}/cancel`: what was delivered is paid, the rest comes back. */
export async function cancelJob(options: JobRouteOptions, exchange: HttpExchange, id: string): Promise<void> {
  const record = await findRecord(options, exchange, id);
  options.service.cancel(record);
  sendJson(exchange.response, 202, jobView(record.document));
}

/** `GET /v1/jobs/{id}/events`: from the start or after `Last-Event-ID`, then live until the job is over. */
export async function getJobEvents(options: JobRouteOptions, exchange: HttpExchange, id: string): Promise<void> {
  const record = await findRecord(options, exchange, id);
  const last = Number(exchange.request.headers["last-event-id"] ?? 0);
  await sendEvents(options, exchange.response, record, Number.isSafeInteger(last) && last > 0 ? last : 0);
}

async function findRecord(options: JobRouteOptions, { owner }: HttpExchange, id: string): Promise<JobRecord> {
  const record = isJobId(id) ? await options.store.find(id) : undefined;
  if (record === undefined || record.document.owner !== owner)
    throw new T4tError("job_not_found", "There is no such job.");
  return record;
}

async function sendEvents(
  options: JobRouteOptions,
  response: ServerResponse,
  record: JobRecord,
  after: number,
): Promise<void> {
  if (response.destroyed) return;
  response.writeHead(200, {
    "content-type": sseContentType,
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-t4t-job-id": record.id,
  });
  response.flushHeaders();
  await new EventWriter(options, response, record.events, after).run();
}

/** Copies events to one reader at the reader's own pace: what it has not read yet waits in the job, not in a buffer of its own. */
class EventWriter {
  readonly #options: JobRouteOptions;
  readonly #response: ServerResponse;
  readonly #events: JobEvents;
  #after: number;
  #lastWrite: number;

  constructor(options: JobRouteOptions, response: ServerResponse, events: JobEvents, after: number) {
    this.#options = options;
    this.#response = response;
    this.#events = events;
    this.#after = after;
    this.#lastWrite = options.clock.monotonic();
  }

  async run(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const reader = this.#events.join(this.#after);
    const pump = (): void => {
      if (this.#response.destroyed) {
        resolve();
        return;
      }
      this.#pump();
      reader.reached(this.#after);
      if (this.#events.closed && this.#after >= this.#events.lastId) resolve();
    };
    const stopListening = this.#events.onChange(pump);
    this.#response.on("drain", pump);
    this.#response.once("close", resolve);
    const cancel = this.#watch();
    try {
      pump();
      await promise;
    } finally {
      cancel();
      stopListening();
      reader.leave();
      this.#response.off("drain", pump);
      this.#response.end();
    }
  }

  /** Writes what the connection takes. */
  #pump(): void {
    const dropped = this.#events.droppedAfter(this.#after);
    let isTold = dropped === undefined;
    for (const event of this.#events.after(this.#after)) {
      if (this.#response.writableNeedDrain) return;
      if (!isTold && dropped !== undefined && event.id > dropped.upTo) {
        isTold = true;
        this.#response.write(
          formatSse({ event: droppedEvent, data: JSON.stringify({ type: droppedEvent, ...dropped }) }),
        );
      }
      this.#after = event.id;
      this.#lastWrite = this.#options.clock.monotonic();
      this.#response.write(`id: ${event.id}\nevent: ${event.name}\ndata: ${event.data}\n\n`);
    }
  }

  /** Keeps the connection alive, and ends one whose reader has stopped reading. */
  #watch(): () => void {
    const { clock, keepAliveMs, clientStallMs } = this.#options;
    let cancel = (): void => undefined;
    const arm = (): void => {
      cancel = clock.after(keepAliveMs, () => {
        const silent = clock.monotonic() - this.#lastWrite;
        if (this.#response.writableNeedDrain) {
          if (silent >= clientStallMs) this.#response.destroy();
        } else if (silent >= keepAliveMs) this.#response.write(formatSseComment("keep-alive"));
        arm();
      });
    };
    arm();
    return () => cancel();
  }
}

function accepts(header: string | undefined): boolean {
  return header?.toLowerCase().includes("text/event-stream") === true;
}

function numberOf(query: URLSearchParams, name: string, fallback: number, least: number, most: number): number {
  const text = query.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new T4tError("invalid_value", `'${name}' must be a whole number from ${least} to ${most}.`, { param: name });
}
