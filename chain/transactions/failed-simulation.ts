import { decodeRevert, describeRevert } from "../revert.ts";
import { looksReverted, nodeMessage, revertDataIn } from "../rpc-errors.ts";
import type { TransactionOutcome } from "./types.ts";

/** How an intent ends whose simulation the node has answered with an error: reverted by the contract, or abandoned. */
export function failedSimulation(error: unknown): Extract<TransactionOutcome, { message: string }> {
  if (!looksReverted(error)) return { status: "abandoned", message: nodeMessage(error), undecided: false };
  const revert = decodeRevert(revertDataIn(error));
  return {
    status: "reverted",
    hash: undefined,
    ...revert,
    message: revert.errorName === undefined ? nodeMessage(error) : describeRevert(revert),
  };
}
