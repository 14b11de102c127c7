import type { ProviderJobWire } from "../../protocol/wire.ts";
import type { ProviderJob } from "../settlement/job.ts";
import { statementOf } from "./receipt-desk.ts";

/** What anyone may know of a job: what the chain will tell anyway, and what we signed. */
export function jobView(job: ProviderJob): ProviderJobWire {
  return {
    jobId: job.jobId,
    status: job.stage,
    ...(job.acknowledgement === undefined ? {} : { acknowledgement: job.acknowledgement }),
    ...(job.checkpoint === undefined ? {} : { usage: job.checkpoint }),
    ...(job.delivery === undefined ? {} : { statement: statementOf(job.delivery), partial: job.delivery.partial }),
    ...(job.payment === undefined ? {} : { payment: job.payment }),
    ...(job.transactionHash === undefined ? {} : { transactionHash: job.transactionHash }),
  };
}
