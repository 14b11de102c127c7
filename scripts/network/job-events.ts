import type { ProgressEvent } from "../../protocol/progress.ts";
import { type SseFrame, SseSplitter } from "../../protocol/sse.ts";

/** The job API answered with something else than a stream of events. */
export class JobApiError extends Error {
  override readonly name = "JobApiError";
}

/** SSE frames of a response body, in order. */
export async function* sseFrames(response: Response): AsyncGenerator<SseFrame> {
  if (!response.ok || response.body === null) {
    throw new JobApiError(`${response.url} answered ${response.status}: ${(await response.text()).slice(0, 500)}`);
  }
  const splitter = new SseSplitter();
  for await (const chunk of response.body) yield* splitter.push(chunk as Uint8Array);
}

/** Progress events of one job, from its first to its last, as they happen. */
export async function* jobEvents(
  gatewayUrl: string,
  id: string,
  options: { readonly signal?: AbortSignal; readonly apiKey?: string } = {},
): AsyncGenerator<ProgressEvent> {
  const { signal, apiKey } = options;
  const response = await fetch(`${gatewayUrl}/v1/jobs/${encodeURIComponent(id)}/events`, {
    ...(signal === undefined ? {} : { signal }),
    ...(apiKey === undefined ? {} : { headers: { authorization: `Bearer ${apiKey}` } }),
  });
  for await (const frame of sseFrames(response)) {
    if (frame.event === undefined || frame.data === undefined) continue;
    yield { ...(JSON.parse(frame.data) as object), type: frame.event } as ProgressEvent;
  }
}
