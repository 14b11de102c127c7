import { type Address, type Hex, type PublicClient, zeroAddress } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { Clock } from "../../protocol/clock.ts";
import { jobStatuses, type OnChainJob } from "./on-chain-job.ts";

/** Reads jobs from the escrow. */
export interface JobReader {
  /** The job now; undefined when the escrow does not know it. Rejects when the chain cannot be asked. */
  read(jobId: Hex): Promise<OnChainJob | undefined>;
}

/** Reads from the escrow's `jobOf`. */
export function escrowJobReader(client: PublicClient, escrow: Address): JobReader {
  return {
    read: async (jobId) => {
      const view = await client.readContract({
        address: escrow,
        abi: jobEscrowAbi,
        functionName: "jobOf",
        args: [jobId],
      });
      const status = jobStatuses[view.status];
      if (status === undefined || status === "None" || view.client === zeroAddress) return undefined;
      return {
        jobId,
        status,
        client: view.client,
        provider: view.provider,
        modelKey: view.modelKey,
        offeringId: view.offeringId,
        prices: { inputPrice: view.inputPrice, outputPrice: view.outputPrice },
        maxPayment: view.maxPayment,
        unsignedLimit: view.unsignedLimit,
        deadline: view.deadline,
      };
    },
  };
}

/** First pause between two reads of a job that the node does not know yet; doubles up to `longestPauseMs`. */
const firstPauseMs = 25;
const longestPauseMs = 400;

/**
 * Reads a job that was posted a moment ago: our node of the chain may be behind the gateway's, so an unknown job is asked for again
 * until `patienceMs` have gone. Ends early when `signal` aborts.
 */
export async function readPostedJob(
  reader: JobReader,
  clock: Clock,
  jobId: Hex,
  patienceMs: number,
  signal: AbortSignal,
): Promise<OnChainJob | undefined> {
  const until = clock.monotonic() + patienceMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    const job = await reader.read(jobId);
    if (job !== undefined || signal.aborted || clock.monotonic() + pauseMs > until) return job;
    await new Promise<void>((resolve) => {
      clock.after(pauseMs, resolve);
    });
  }
}
