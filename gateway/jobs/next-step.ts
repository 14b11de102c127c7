import type { EscrowTerms, JobOnChain, JobStatusName } from "./escrow-calls.ts";
import type { AttemptDocument, AttemptState } from "./job-document.ts";

/** What to do for a job whose request is over or has moved on. Times in Unix seconds of the chain. */
export type JanitorStep =
  /** The chain has ended it. */
  | { readonly kind: "ended"; readonly state: AttemptState }
  | { readonly kind: "wait"; readonly until: number }
  | {
      readonly kind: "agree_on_part" | "hand_over_receipt" | "request_cancel" | "finalize_cancel" | "expire" | "slash";
    };

/** Windows that the janitor goes by, seconds. */
export interface JanitorWindows extends Pick<EscrowTerms, "ackWindow" | "responseWindow"> {
  /** After this time from posting a provider has declined, by itself, a job that nobody sent it. */
  readonly unsentPatience: number;
  /** How long a provider is asked for its statement on a part. */
  readonly partPatience: number;
  /** Time after the deadline in which a provider with a receipt may still settle. */
  readonly settleGrace: number;
  /** Whether a provider that broke its signed word is held to it at the deadline, in place of taking the money back before. */
  readonly slashes: boolean;
}

export const defaultWindows: Omit<JanitorWindows, "ackWindow" | "responseWindow" | "slashes"> = {
  unsentPatience: 75,
  partPatience: 30,
  settleGrace: 120,
};

/** A block's time must be past a bound, not at it. */
const margin = 1;

const endedBy: Readonly<Partial<Record<JobStatusName, AttemptState>>> = {
  Completed: "settled",
  Declined: "declined",
  Cancelled: "cancelled",
  Expired: "expired",
  Slashed: "slashed",
};

/**
 * The next step of one job, from what we know of it and what the chain says. Pure. Every job that is not over gets a step or a time,
 * so none is left without an end.
 *
 * @param nowMs Our wall clock, for what we measured by it.
 */
export function nextStep(
  attempt: AttemptDocument,
  job: JobOnChain,
  now: number,
  nowMs: number,
  windows: JanitorWindows,
): JanitorStep {
  const ended = endedBy[job.status];
  if (ended !== undefined) return { kind: "ended", state: ended };
  const { receipt } = attempt;
  const overdue = now >= job.deadline + margin;
  if (receipt !== undefined) {
    const graceEnds = job.deadline + windows.settleGrace;
    if (now >= graceEnds) return { kind: "expire" };
    return attempt.receiptTaken === true ? { kind: "wait", until: graceEnds } : { kind: "hand_over_receipt" };
  }
  const proven =
    windows.slashes &&
    attempt.fault === true &&
    attempt.acknowledgement !== undefined &&
    attempt.requestHash !== undefined;
  if (overdue) return { kind: proven ? "slash" : "expire" };
  if (attempt.partial !== undefined && nowMs < attempt.partial.at + windows.partPatience * 1000) {
    return { kind: "agree_on_part" };
  }
  switch (job.status) {
    case "Open": {
      // A cancel would bring the money back sooner and let the provider go: two transactions that cost what the one slash does.
      if (proven) return { kind: "wait", until: job.deadline + margin };
      const patience = attempt.sent === true ? windows.ackWindow : Math.max(windows.ackWindow, windows.unsentPatience);
      return dueAt(job.since + patience, now, "request_cancel");
    }
    case "CancelRequested":
      return dueAt(job.since + windows.responseWindow, now, "finalize_cancel");
    default:
      return { kind: "wait", until: job.deadline + margin };
  }
}

function dueAt(time: number, now: number, kind: "request_cancel" | "finalize_cancel"): JanitorStep {
  return now >= time + margin ? { kind } : { kind: "wait", until: time + margin };
}
