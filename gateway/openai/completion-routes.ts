import type { Clock } from "../../protocol/clock.ts";
import type { HttpExchange } from "../http/http-server.ts";
import { requireJson } from "../http/browser-guard.ts";
import { readBody } from "../http/read-body.ts";
import type { JobService } from "../jobs/job-service.ts";
import { JsonSink, StreamSink } from "../progress/answer-sinks.ts";
import { type CompletionKind, parseCompletionRequest } from "./completion-request.ts";
import { readWishes } from "./request-headers.ts";

/** Options of the completion routes. Times in ms. */
export interface CompletionRouteOptions {
  readonly service: JobService;
  readonly clock: Clock;
  readonly maxBodyBytes: number;
  readonly commitGraceMs: number;
  readonly keepAliveMs: number;
  readonly clientStallMs: number;
}

/** Aborted when the client goes before its answer is complete. */
export function clientSignal({ response }: Pick<HttpExchange, "response">): AbortSignal {
  const abort = new AbortController();
  const onClose = (): void => {
    if (!response.writableFinished) abort.abort();
  };
  if (response.destroyed) onClose();
  else response.once("close", onClose);
  return abort.signal;
}

/** `POST /v1/chat/completions` and `POST /v1/completions`. Resolves when the answer has ended. */
export async function answerCompletion(
  options: CompletionRouteOptions,
  kind: CompletionKind,
  exchange: HttpExchange,
): Promise<void> {
  const { request, response, requestId, requestIdGiven, owner } = exchange;
  const { service, clock } = options;
  requireJson(request.headers["content-type"]);
  const wishes = readWishes(request.headers);
  const completion = parseCompletionRequest(kind, await readBody(request, options.maxBodyBytes));
  const signal = clientSignal(exchange);
  const { record, run } = service.submit({
    completion,
    wishes,
    requestId,
    requestIdGiven,
    owner,
    source: "openai",
  });
  const sink = completion.stream
    ? new StreamSink({
        response,
        clock,
        mode: wishes.progress,
        chunk: {
          kind,
          id: `${kind === "chat" ? "chatcmpl" : "cmpl"}-${record.id.slice(2, 34)}`,
          created: Math.floor(clock.now() / 1000),
          model: completion.modelId ?? "auto",
        },
        jobId: record.id,
        graceMs: options.commitGraceMs,
        keepAliveMs: options.keepAliveMs,
        stallMs: options.clientStallMs,
        debug: wishes.debug,
      })
    : new JsonSink(response, record.id, wishes.debug);
  await run(sink, signal);
}
