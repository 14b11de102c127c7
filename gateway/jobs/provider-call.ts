import type { Hex } from "viem";
import { bodyHash } from "../../protocol/body-hash.ts";
import { authorizationTypedData } from "../../protocol/messages.ts";
import { encodeAuthorization, wireHeaders } from "../../protocol/wire.ts";
import { upstreamBody } from "../openai/upstream-body.ts";
import type { Candidate } from "../routing/types.ts";
import type { Endpoint } from "../upstream/endpoint.ts";
import { maxTokensAt } from "./escrow-plan.ts";
import type { JobRequest } from "./job-request.ts";
import type { ProviderCall } from "./provider-answer.ts";
import { isAcknowledgement } from "./provider-signatures.ts";
import { type RequestContext, signersOf } from "./request-context.ts";

/** One job and the provider that the chain gave it to. */
export interface AssignedJob {
  readonly request: JobRequest;
  readonly jobId: Hex;
  readonly candidate: Candidate;
  readonly endpoint: Endpoint;
  /** Block of the post. */
  readonly blockNumber: number;
  /** Ms until the first byte must be there. */
  readonly leftMs: number;
  /** Id that the client's inert chunks carried. */
  readonly chunkId: string | undefined;
  readonly signal: AbortSignal;
}

/** Seconds that an authorisation is good for. */
const authorizationSeconds = 120;

/** The call that asks a provider to run a job: the client's body as it goes upstream, authorised by the wallet. */
export async function providerCall(
  context: RequestContext,
  job: AssignedJob,
): Promise<{ readonly call: ProviderCall; readonly requestHash: Hex }> {
  const { account, clock, connections, domain, escrow, limits, settlement } = context;
  const { candidate, endpoint, jobId, leftMs } = job;
  const { completion } = job.request;
  const body = upstreamBody(completion, {
    modelId: candidate.modelId,
    maxTokens: maxTokensAt(completion, candidate.contextLength, escrow()),
  });
  const requestHash = bodyHash(body);
  // Wall time, as the provider reads it: the chain's may be far from it on a development chain.
  const expiresAt = Math.floor(clock.now() / 1000) + authorizationSeconds;
  const signature = await account.signTypedData(authorizationTypedData(domain, { jobId, requestHash, expiresAt }));
  const call: ProviderCall = {
    pool: connections.poolFor(endpoint.origin),
    path: `${endpoint.basePath}${completion.kind === "chat" ? "/v1/chat/completions" : "/v1/completions"}`,
    headers: {
      "content-type": "application/json",
      accept: completion.stream ? "text/event-stream" : "application/json",
      [wireHeaders.jobId]: jobId,
      [wireHeaders.authorization]: encodeAuthorization({ expiresAt, signature }),
      [wireHeaders.blockNumber]: String(job.blockNumber),
      // The client's own id may name its user or session, and the same id at two providers would link its jobs.
      [wireHeaders.requestId]: jobId,
    },
    body,
    stream: completion.stream
      ? {
          kind: completion.kind,
          choices: completion.choices,
          includeUsage: completion.includeUsage,
          id: job.chunkId,
          ...(completion.modelId === undefined ? { model: candidate.modelId } : {}),
        }
      : undefined,
    // A stream's head comes as soon as the job is taken; that of a JSON answer only with all of it.
    headTimeoutMs: Math.max(1, completion.stream ? Math.min(leftMs, limits.ackTimeoutMs) : leftMs),
    idleTimeoutMs: limits.idleTimeoutMs,
    ...(completion.stream
      ? {}
      : {
          probe: {
            everyMs: limits.ackTimeoutMs,
            consent: async () => await settlement.consentOf(candidate.endpoint, jobId),
          },
        }),
    statementTimeoutMs: limits.statementTimeoutMs,
    maxAnswerBytes: limits.maxAnswerBytes,
    verifyAcknowledgement: (acknowledgement) =>
      isAcknowledgement(domain, signersOf(context, candidate.provider), { jobId, requestHash }, acknowledgement),
    clock,
    signal: job.signal,
  };
  return { call, requestHash };
}
