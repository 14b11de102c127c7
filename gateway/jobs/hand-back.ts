import type { Hex } from "viem";
import { type CompletionKind, type CompletionRequest, parseCompletionRequest } from "../openai/completion-request.ts";
import type { Candidate } from "../routing/types.ts";
import { askProvider, type ProviderAnswerListener, type ProviderResult } from "./provider-answer.ts";
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
 * Makes a provider give a job back at once that nobody wants any more: it is asked for more than the job pays, which it refuses, and
 * with the refusal it declines the job. One that takes it all the same is left as soon as it has bound itself, and declines for that.
 * Unasked it would hold the slot until it gives up waiting. The client's own request is not sent: nobody is there to read an answer.
 */
export async function handBack(
  context: RequestContext,
  job: Omit<AssignedJob, "signal" | "chunkId" | "leftMs">,
): Promise<HandedBack> {
  const leave = new AbortController();
  const asked = unpaidRequest(job.request.completion.kind, job.candidate);
  const { call, requestHash } = await providerCall(context, {
    ...job,
    request: { ...job.request, completion: asked },
    leftMs: context.limits.ackTimeoutMs,
    chunkId: undefined,
    signal: leave.signal,
  });
  const listener: ProviderAnswerListener = {
    acknowledged: () => leave.abort(),
    start: () => undefined,
    seen: () => undefined,
    write: () => true,
    onDrain: () => undefined,
    done: () => undefined,
  };
  let result = await askProvider(call, listener);
  // A connection that the provider closed as idle: it has not heard of the job yet.
  if (result.kind === "fault" && result.staleConnection) result = await askProvider(call, listener);
  return { result, asked, requestHash };
}

/** One character, answered at the greatest length there is; where an answer costs nothing, at the least. */
function unpaidRequest(kind: CompletionKind, { modelId, outputPrice }: Candidate): CompletionRequest {
  const prompt = kind === "chat" ? { messages: [{ role: "user", content: "-" }] } : { prompt: "-" };
  const length = outputPrice > 0n ? { max_tokens: 2 ** 31 - 1, n: 128 } : { max_tokens: 1 };
  return parseCompletionRequest(
    kind,
    Buffer.from(JSON.stringify({ model: modelId, ...prompt, ...length, stream: true })),
  );
}
