import type { Hex } from "viem";
import type { JobEvent } from "../../chain/registry-index/types.ts";
import type { EscrowCalls, PostOutcome, PostRequest } from "./escrow-calls.ts";

/**
 * Posts whose outcome is told as soon as a block holds them. The transaction queue tells it only when that block has its confirmations,
 * which may take longer than a provider keeps a job that no request came for. A provider checks the job on chain by itself, and a
 * post that a reorganisation takes back is seen by the janitor: nothing hangs on the confirmations here.
 */
export class SightedPosts {
  readonly #calls: Pick<EscrowCalls, "jobIdOf" | "post">;
  readonly #waiting = new Map<Hex, (outcome: PostOutcome) => void>();

  constructor(calls: Pick<EscrowCalls, "jobIdOf" | "post">) {
    this.#calls = calls;
  }

  jobIdOf(nonce: bigint): Hex {
    return this.#calls.jobIdOf(nonce);
  }

  /** Tells of what the index has seen. */
  observe(event: JobEvent): void {
    if (event.type !== "posted" || event.removed) return;
    const { provider, place } = event;
    this.#waiting.get(event.jobId)?.({
      kind: "posted",
      provider,
      transactionHash: place.transactionHash,
      blockNumber: place.blockNumber,
    });
  }

  /** As `EscrowCalls.post`. */
  async post(request: PostRequest): Promise<PostOutcome> {
    const jobId = this.#calls.jobIdOf(request.nonce);
    const seen = Promise.withResolvers<PostOutcome>();
    this.#waiting.set(jobId, seen.resolve);
    try {
      return await Promise.race([this.#calls.post(request), seen.promise]);
    } finally {
      this.#waiting.delete(jobId);
    }
  }
}
