import type { JobEvent } from "../../chain/registry-index/types.ts";
import type { Usage } from "../../protocol/usage.ts";
import { type AttemptDocument, type AttemptState, isTerminalState } from "./job-document.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobStore } from "./job-store.ts";

const endStates: Readonly<Partial<Record<JobEvent["type"], AttemptState>>> = {
  completed: "settled",
  declined: "declined",
  cancelled: "cancelled",
  expired: "expired",
  slashed: "slashed",
};

/** How a job of ours ended on chain, for metrics. */
export type JobEndListener = (state: AttemptState, payment: bigint, attempt: AttemptDocument) => void;

/** Takes what the chain says of a job over into our record of it. Events of other gateways' jobs do nothing. */
export function applyJobEvent(store: JobStore, event: JobEvent, onEnd: JobEndListener): void {
  const record = store.byJob(event.jobId);
  const attempt = record?.attempt(event.jobId);
  const state = endStates[event.type];
  if (record === undefined || attempt === undefined || state === undefined) return;
  if (event.removed) {
    // A reorganisation took the end back; it is likely to come again.
    if (attempt.state === state)
      record.updateAttempt(attempt.jobId, { state: attempt.receipt === undefined ? "abandoned" : "delivered" });
    return;
  }
  if (isTerminalState(attempt.state)) return;
  tellReaders(record, attempt, event);
  if (event.type === "completed") {
    record.updateAttempt(attempt.jobId, {
      state,
      payment: String(event.payment),
      usage: usageOf(event),
      endTransaction: event.place.transactionHash,
    });
    onEnd(state, event.payment, attempt);
  } else {
    record.updateAttempt(attempt.jobId, { state, endTransaction: event.place.transactionHash });
    onEnd(state, 0n, attempt);
  }
  record.saveSoon();
}

/** Readers of the request's events hear of the job that delivered, not of those that were given up on the way. */
function tellReaders(record: JobRecord, attempt: AttemptDocument, event: JobEvent): void {
  if (attempt.receipt === undefined && attempt.state !== "delivered") return;
  if (event.type === "completed") {
    record.progress({
      type: "settled",
      jobId: attempt.jobId,
      provider: event.provider,
      usage: usageOf(event),
      payment: String(event.payment),
      transactionHash: event.place.transactionHash,
    });
  } else {
    record.progress({ type: "failed", code: "refunded", message: "The provider gave the payment back." });
  }
}

function usageOf(event: Extract<JobEvent, { type: "completed" }>): Usage {
  return { inputTokens: Number(event.inputTokens), outputTokens: Number(event.outputTokens) };
}
