import type { OnChainJob } from "../escrow/on-chain-job.ts";
import { isOpenOnChain } from "../escrow/on-chain-job.ts";
import { isTerminal, type JobStage, type ProviderJob } from "./job.ts";

/**
 * Whether the end that a job has in our book is not the one that it has on chain now: the job is open again, has another end, or is
 * gone together with its post, which may come back until its deadline. Pure.
 *
 * @param chainNowMs Chain time, Unix ms.
 */
export function isEndUndone(job: ProviderJob, onChain: OnChainJob | undefined, chainNowMs: number): boolean {
  if (!isTerminal(job.stage)) return false;
  if (onChain === undefined) return chainNowMs < job.deadline * 1000;
  if (isOpenOnChain(onChain.status)) return true;
  return endStageOf(job, onChain.status) !== job.stage;
}

/** The stage of a job that has this end on chain. */
function endStageOf(job: ProviderJob, status: OnChainJob["status"]): JobStage {
  if (status === "Completed") return "settled";
  if (status !== "Declined") return "lost";
  return job.delivery === undefined ? "declined" : "forfeited";
}

/**
 * A job whose end was undone, as it was before: what was signed and delivered is still there, so it is settled again. Its next
 * transaction is another than the one that the chain has dropped. Pure.
 */
export function reopened(job: ProviderJob): ProviderJob {
  const { transaction: _transaction, transactionHash: _hash, payment: _payment, endBlock: _block, ...rest } = job;
  const { reason: _reason, retryAt: _retryAt, ...open } = rest;
  return { ...open, stage: stageOf(job), attempts: job.attempts + 1 };
}

function stageOf(job: ProviderJob): JobStage {
  if (job.receipt !== undefined) return "receipted";
  if (job.delivery !== undefined) return "delivered";
  if (job.stage === "declined") return "declining";
  return job.acknowledgement === undefined ? "posted" : "accepted";
}
