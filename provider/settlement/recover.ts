import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { ProviderSigner } from "../signer.ts";
import type { JobBook } from "./job-book.ts";

const unknownHash: Hex = `0x${"0".repeat(64)}`;

/** What recovery works with. */
export interface RecoveryParts {
  readonly book: JobBook;
  readonly signer: Pick<ProviderSigner, "stateUsage">;
  readonly clock: Clock;
}

/**
 * Takes up the streams that ended with an earlier process. Call before anything else touches the book; returns how many there were.
 */
export async function recoverStreams(parts: RecoveryParts): Promise<number> {
  const left = parts.book.openJobs().filter(({ stage }) => stage === "accepted");
  for (const { jobId } of left) await recoverStream(parts, jobId, "restart");
  return left.length;
}

/**
 * Takes up one stream that runs nowhere any more. What was delivered up to the last checkpoint is stated and settled; where nothing
 * was, the job is given back.
 */
export async function recoverStream({ book, signer, clock }: RecoveryParts, jobId: Hex, reason: string): Promise<void> {
  const job = await book.get(jobId);
  if (job?.stage !== "accepted") return;
  const { checkpoint } = job;
  if (checkpoint === undefined || checkpoint.outputTokens === 0) {
    await book.change(jobId, (now) => (now.stage === "accepted" ? { ...now, stage: "declining", reason } : undefined));
    return;
  }
  const responseHash = unknownHash;
  const statement = await signer.stateUsage({ jobId, usage: checkpoint, responseHash });
  await book.change(jobId, (now) => {
    if (now.stage !== "accepted") return undefined;
    const { checkpoint: _checkpoint, ...rest } = now;
    return {
      ...rest,
      stage: "delivered",
      delivery: { usage: checkpoint, responseHash, statement, estimated: true, partial: true, at: clock.now() },
      reason,
    };
  });
}
