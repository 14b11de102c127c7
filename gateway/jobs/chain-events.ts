import type { Hex } from "viem";
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
export type JobEndListener = (state: AttemptState, payment: bigint | undefined, attempt: AttemptDocument) => void;

/** How a job ended on chain. */
export interface JobEnd {
  readonly state: AttemptState;
  /** Wei paid to the provider, 0 for any end but a payment; undefined where the chain's events could not be read any more. */
  readonly payment: bigint | undefined;
  readonly usage: Usage | undefined;
  /** undefined where the chain's events could not be read any more. */
  readonly transactionHash: Hex | undefined;
}

/** Takes what the chain says of a job over into our record of it. Events of other gateways' jobs do nothing. */
export function applyJobEvent(store: JobStore, event: JobEvent, onEnd: JobEndListener): void {
  const record = store.byJob(event.jobId);
  const attempt = record?.attempt(event.jobId);
  if (record === undefined || attempt === undefined) return;
  if (event.type === "posted") {
    if (!event.removed) posted(record, attempt, event);
    return;
  }
  const state = endStates[event.type];
  if (state === undefined) return;
  if (event.removed) {
    // A reorganisation took the end back; it is likely to come again.
    if (attempt.state === state) {
      record.updateAttempt(attempt.jobId, { state: attempt.receipt === undefined ? "abandoned" : "delivered" });
      // The journal has it as over: a later process would not look at it any more.
      record.saveLater();
    }
    return;
  }
  const paid = event.type === "completed";
  applyEnd(
    record,
    attempt,
    {
      state,
      payment: paid ? event.payment : 0n,
      usage: paid ? { inputTokens: Number(event.inputTokens), outputTokens: Number(event.outputTokens) } : undefined,
      transactionHash: event.place.transactionHash,
    },
    onEnd,
  );
}

/** The chain has a job that was held never to have come there: its money is to be brought back like that of any that is given up. */
function posted(record: JobRecord, attempt: AttemptDocument, event: JobEvent & { readonly type: "posted" }): void {
  if (attempt.state !== "not_posted") return;
  const { provider, deadline, place } = event;
  record.updateAttempt(attempt.jobId, { state: "abandoned", provider, deadline, postBlock: place.blockNumber });
  record.saveSoon();
}

/** Takes the end of a job over into our record and tells readers. Only the first end counts. */
export function applyEnd(record: JobRecord, attempt: AttemptDocument, end: JobEnd, onEnd: JobEndListener): void {
  if (isTerminalState(attempt.state)) return;
  tellReaders(record, attempt, end);
  const { state, payment, usage, transactionHash } = end;
  record.updateAttempt(attempt.jobId, {
    state,
    ...(state === "settled" && payment !== undefined ? { payment: String(payment) } : {}),
    ...(usage === undefined ? {} : { usage }),
    ...(transactionHash === undefined ? {} : { endTransaction: transactionHash }),
  });
  record.saveLater();
  onEnd(state, payment, attempt);
}

/** Readers of the request's events hear of the job that delivered, not of those that were given up on the way. */
function tellReaders(record: JobRecord, attempt: AttemptDocument, end: JobEnd): void {
  if (attempt.receipt === undefined && attempt.state !== "delivered") return;
  const { provider } = attempt;
  if (
    end.state === "settled" &&
    provider !== undefined &&
    end.usage !== undefined &&
    end.payment !== undefined &&
    end.transactionHash !== undefined
  ) {
    record.progress({
      type: "settled",
      jobId: attempt.jobId,
      provider,
      usage: end.usage,
      payment: String(end.payment),
      transactionHash: end.transactionHash,
    });
  } else if (end.state !== "settled") {
    record.progress({ type: "failed", code: "refunded", message: "The payment for the job came back." });
  }
}
