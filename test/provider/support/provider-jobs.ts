import type { Hex } from "viem";
import type { ProviderJob } from "../../../provider/settlement/job.ts";

/** The id of a test's job number `number`. */
export const idOf = (number: number): Hex => `0x${number.toString(16).padStart(64, "0")}`;

/**
 * A job that its provider has taken on at `nowMs`, and whose answer is not over; with the fields that a test cares about. One token
 * costs one wei, so that 100 tokens are paid with 100.
 */
export function acceptedJob(nowMs: number, fields: Partial<ProviderJob> & Pick<ProviderJob, "jobId">): ProviderJob {
  return {
    stage: "accepted",
    client: "0x00000000000000000000000000000000000000C1",
    inputPrice: "1000000",
    outputPrice: "1000000",
    maxPayment: "1000",
    unsignedLimit: "50",
    deadline: nowMs / 1000 + 600,
    seenAt: nowMs,
    attempts: 0,
    ...fields,
  };
}
