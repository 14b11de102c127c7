import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { ProviderSigner } from "../signer.ts";
import type { JobBook } from "./job-book.ts";

const unknownHash: Hex = `0x${"0".repeat(64)}`;

/**
 * Takes up the streams that ended with an earlier process. What was delivered up to the last checkpoint is stated and settled; where
 * nothing was, the job is given back. Call before anything else touches the book; returns how many there were.
 */
export async function recoverStreams(book: JobBook, signer: ProviderSigner, clock: Clock): Promise<number> {
  let recovered = 0;
  for (const { jobId, stage, checkpoint } of book.openJobs()) {
    if (stage !== "accepted") continue;
    recovered += 1;
    if (checkpoint === undefined || checkpoint.outputTokens === 0) {
      await book.change(jobId, (job) => ({ ...job, stage: "declining", reason: "restart" }));
      continue;
    }
    const responseHash = unknownHash;
    const statement = await signer.stateUsage({ jobId, usage: checkpoint, responseHash });
    await book.change(jobId, ({ checkpoint: _checkpoint, ...job }) => ({
      ...job,
      stage: "delivered",
      delivery: { usage: checkpoint, responseHash, statement, estimated: true, partial: true, at: clock.now() },
      reason: "restart",
    }));
  }
  return recovered;
}
