import type { Address, Hex } from "viem";
import type { T4tError } from "../../protocol/errors.ts";
import type { DecisionRecord } from "../routing/decision-record.ts";
import type { ProgressEvent } from "../../protocol/progress.ts";

/** Who answers, as told to the client. */
export interface AnswerHead {
  readonly jobId: Hex;
  readonly provider: Address;
  /** Model that serves: of interest to a request that named none. */
  readonly modelId: string;
  readonly decision: DecisionRecord | undefined;
}

/**
 * Where one request's answer goes. The job's life knows no HTTP: it reports progress, then either an answer or a failure. Calls after
 * the client has gone do nothing.
 */
export interface AnswerSink {
  progress(event: ProgressEvent): void;
  /** Id that inert chunks already carried, which real chunks must carry too; undefined: ids pass unchanged. */
  readonly chunkId: string | undefined;
  /** The first bytes of a streamed answer follow. From here on no other provider can take over. */
  start(head: AnswerHead): void;
  /** False: the client reads slower than the provider writes; wait for `onDrain`. */
  write(bytes: Buffer): boolean;
  /** Called once when more can be written, or the client has gone. */
  onDrain(callback: () => void): void;
  /** The streamed answer is complete: the client is let go at once. */
  end(): void;
  /** A whole answer of a request that is not streamed. */
  answer(head: AnswerHead, body: Buffer): void;
  /** The request failed. `decision`: why nobody was chosen, or who was asked last. */
  fail(error: T4tError, decision?: DecisionRecord): void;
}
