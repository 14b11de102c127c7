import type { Hex } from "viem";
import type { CompletionRequest } from "../openai/completion-request.ts";
import type { Policy } from "../routing/types.ts";

/** One request as the job's life needs it. */
export interface JobRequest {
  /** Its own id: the job id of the first attempt. */
  readonly id: Hex;
  /** Client nonce of the first attempt. */
  readonly nonce: bigint;
  readonly completion: CompletionRequest;
  readonly requestId: string;
  readonly policy: Policy;
  readonly affinityKey: string | undefined;
  /** Order of arrival. */
  readonly sequence: number;
  /** Monotonic ms. */
  readonly arrivedAt: number;
  /** Ms after arrival by which the first byte of the answer must be there. */
  readonly budgetMs: number;
  /** Longest time in the line, ms. */
  readonly waitLimitMs: number;
}
