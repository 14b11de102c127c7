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

/** Looks now and then for streams whose end was lost: each would hold a slot, and money, until its job's deadline. */
export class LostEnds {
  readonly #parts: RecoveryParts;
  readonly #isLive: (jobId: Hex) => boolean;
  /** Streams that ran nowhere at the last look: one that is being started, or whose end is being written, is not among them twice. */
  #suspects: ReadonlySet<Hex> = new Set();

  /** @param isLive Whether a job's stream runs in this process. */
  constructor(parts: RecoveryParts, isLive: (jobId: Hex) => boolean) {
    this.#parts = parts;
    this.#isLive = isLive;
  }

  /** Takes up what runs nowhere for the second look in a row; returns how many there were. */
  async look(): Promise<number> {
    const idle = this.#parts.book.openJobs().filter(({ jobId, stage }) => stage === "accepted" && !this.#isLive(jobId));
    const lost = idle.filter(({ jobId }) => this.#suspects.has(jobId));
    this.#suspects = new Set(idle.map(({ jobId }) => jobId));
    for (const { jobId } of lost) await recoverStream(this.#parts, jobId, "lost_end");
    return lost.length;
  }
}
