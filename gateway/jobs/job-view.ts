import type { Hex } from "viem";
import { type AttemptDocument, decisionOf, type JobDocument, lockedBy, statusOf } from "./job-document.ts";

/** A request and its jobs as `GET /v1/jobs/{id}` shows them. Amounts are decimal strings in the token's smallest unit, times Unix ms. */
export function jobView(document: JobDocument) {
  // Paid without our receipt too: a provider may claim a part unsigned.
  const delivering = document.attempts.findLast(
    ({ receipt, state }) => receipt !== undefined || state === "delivered" || state === "settled",
  );
  return {
    id: document.id,
    object: "job",
    type: document.kind === "chat" ? "chat.completions" : "completions",
    status: statusOf(document),
    model: document.model ?? delivering?.modelId ?? null,
    stream: document.stream,
    requestId: document.requestId,
    createdAt: document.createdAt,
    jobId: delivering?.jobId ?? document.id,
    provider: delivering?.provider ?? null,
    usage: delivering?.usage === undefined ? null : delivering.usage,
    payment: delivering?.payment ?? null,
    /** Held in the escrow now by all jobs of this request. */
    locked: String(lockedBy(document)),
    error: errorView(document),
    /** Why the provider that answered, or was asked last, was chosen, or nobody was. */
    decision: (delivering === undefined ? decisionOf(document) : delivering.decision) ?? null,
    attempts: document.attempts.map(attemptView),
    response: document.result === null ? null : (JSON.parse(document.result) as unknown),
  };
}

/** The same without what is long, for pages. */
export function jobSummary(document: JobDocument) {
  const { attempts: _attempts, response: _response, ...summary } = jobView(document);
  return summary;
}

function attemptView(attempt: AttemptDocument) {
  return {
    jobId: attempt.jobId,
    status: attempt.state,
    model: attempt.modelId === "" ? null : attempt.modelId,
    provider: attempt.provider ?? null,
    maxPayment: attempt.maxPayment,
    payment: attempt.payment ?? null,
    usage: attempt.usage === undefined ? null : attempt.usage,
    deadline: attempt.deadline === 0 ? null : attempt.deadline,
    postTransaction: attempt.postTransaction ?? null,
    endTransaction: attempt.endTransaction ?? null,
    decision: attempt.decision ?? null,
  };
}

function errorView({ outcome }: JobDocument): { readonly code: string; readonly message: string } | null {
  if (outcome === null || outcome.status === "completed") return null;
  return { code: outcome.code ?? outcome.status, message: outcome.message ?? "" };
}

/** Whether a text can be the id of a request or of a job on chain. */
export function isJobId(text: string): text is Hex {
  return /^0x[0-9a-f]{64}$/i.test(text);
}
