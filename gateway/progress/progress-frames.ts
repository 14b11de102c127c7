import type { T4tError } from "../../protocol/errors.ts";
import type { ProgressEvent, ProgressMode } from "../../protocol/progress.ts";
import { formatSse, formatSseComment } from "../../protocol/sse.ts";
import type { CompletionKind } from "../openai/completion-request.ts";

/** What inert chunks of one answer have in common. */
export interface InertChunk {
  readonly kind: CompletionKind;
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
}

/**
 * A progress event inside an OpenAI stream, in a form that no client trips over. The SDKs do not ignore a named event: they drop the
 * name and parse its data as a chunk. So the data is always a legal chunk that adds nothing, and the facts ride under one vendor key.
 * undefined: this mode shows none.
 */
export function progressFrame(mode: ProgressMode, event: ProgressEvent, chunk: InertChunk): string | undefined {
  const { type, ...facts } = event;
  switch (mode) {
    case "comment":
      return formatSseComment(`${type} ${JSON.stringify(facts)}`);
    case "event":
      return formatSse({ event: type, data: inertChunk(chunk, event) });
    case "chunk":
      return formatSse({ data: inertChunk(chunk, event) });
    case "off":
      return undefined;
  }
}

/** Something that keeps balancers from cutting a silent stream. In `chunk` mode every line but blank ones must be JSON data. */
export function keepAliveFrame(mode: ProgressMode, chunk: InertChunk): string {
  return mode === "chunk" ? formatSse({ data: inertChunk(chunk, undefined) }) : formatSseComment("keep-alive");
}

/** An error after the status line has gone: one unnamed frame, after which the stream ends without `[DONE]`. */
export function errorFrame(error: T4tError): string {
  const body = error.toBody();
  const retryAfter = error.toHeaders()["retry-after"];
  const more = retryAfter === undefined ? {} : { retry_after_ms: Number(retryAfter) * 1000 };
  return formatSse({ data: JSON.stringify({ error: { ...body.error, ...more } }) });
}

function inertChunk(chunk: InertChunk, event: ProgressEvent | undefined): string {
  const facts = event === undefined ? {} : { t4t: event };
  const { id, created, model } = chunk;
  return chunk.kind === "chat"
    ? JSON.stringify({
        id,
        object: "chat.completion.chunk",
        created,
        model,
        choices: [{ index: 0, delta: {}, finish_reason: null }],
        ...facts,
      })
    : JSON.stringify({
        id,
        object: "text_completion",
        created,
        model,
        choices: [{ index: 0, text: "", logprobs: null, finish_reason: null }],
        ...facts,
      });
}
