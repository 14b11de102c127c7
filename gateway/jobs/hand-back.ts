import type { Hex } from "viem";
import type { CompletionKind, CompletionRequest } from "../openai/completion-request.ts";
import { parseCompletionRequest } from "../openai/completion-request.ts";
import { askProvider, type ProviderResult } from "./provider-answer.ts";
import { type AssignedJob, providerCall } from "./provider-call.ts";
import type { RequestContext } from "./request-context.ts";

/** What asking a provider to give a job back came to. */
export interface HandedBack {
  readonly result: ProviderResult;
  /** What it was asked in the client's place, for the bounds of what it may say that it delivered. */
  readonly asked: CompletionRequest;
  readonly requestHash: Hex;
}

/**
 * Makes a provider give a job back at once that nobody wants any more: it is asked for the least there is and left as soon as it has
 * taken the job, and a provider that is left before its first token declines. Unasked it would hold the slot until it gives up waiting.
 * The client's own request is not sent: nobody is there to read an answer to it.
 */
export async function handBack(
  context: RequestContext,
  job: Omit<AssignedJob, "signal" | "chunkId" | "leftMs">,
): Promise<HandedBack> {
  const leave = new AbortController();
  const asked = leastRequest(job.request.completion.kind, job.candidate.modelId);
  const { call, requestHash } = await providerCall(context, {
    ...job,
    request: { ...job.request, completion: asked },
    leftMs: context.limits.ackTimeoutMs,
    chunkId: undefined,
    signal: leave.signal,
  });
  const result = await askProvider(call, {
    acknowledged: () => leave.abort(),
    start: () => undefined,
    write: () => true,
    onDrain: () => undefined,
    done: () => undefined,
  });
  return { result, asked, requestHash };
}

/** One token in answer to one character. */
function leastRequest(kind: CompletionKind, model: string): CompletionRequest {
  const prompt = kind === "chat" ? { messages: [{ role: "user", content: "-" }] } : { prompt: "-" };
  return parseCompletionRequest(kind, Buffer.from(JSON.stringify({ model, ...prompt, max_tokens: 1, stream: true })));
}
