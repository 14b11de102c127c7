import { decodeErrorResult, type Hex } from "viem";
import { jobEscrowAbi } from "./abi/job-escrow.ts";
import { providerRegistryAbi } from "./abi/provider-registry.ts";

/** A contract's error by its Solidity name. */
export interface DecodedRevert {
  /** undefined when the data belongs to no error of ours. */
  readonly errorName: string | undefined;
  readonly errorArgs: readonly unknown[];
}

const errorsOfToken = [
  {
    type: "error",
    name: "ERC20InsufficientBalance",
    inputs: [
      { name: "sender", type: "address" },
      { name: "balance", type: "uint256" },
      { name: "needed", type: "uint256" },
    ],
  },
  {
    type: "error",
    name: "ERC20InsufficientAllowance",
    inputs: [
      { name: "spender", type: "address" },
      { name: "allowance", type: "uint256" },
      { name: "needed", type: "uint256" },
    ],
  },
] as const;

const knownErrors = [
  ...jobEscrowAbi.filter((item) => item.type === "error"),
  ...providerRegistryAbi.filter((item) => item.type === "error"),
  ...errorsOfToken,
];

/** Reads revert data by the errors of both contracts, the token's, and Solidity's own `Error` and `Panic`. Pure; never throws. */
export function decodeRevert(data: Hex | undefined): DecodedRevert {
  if (data === undefined || data.length < 10) return { errorName: undefined, errorArgs: [] };
  try {
    const decoded = decodeErrorResult({ abi: knownErrors, data });
    return { errorName: decoded.errorName, errorArgs: decoded.args };
  } catch {
    return { errorName: undefined, errorArgs: [] };
  }
}

/** One line for a log: `Name(arg, arg)`. */
export function describeRevert(revert: DecodedRevert): string {
  if (revert.errorName === undefined) return "reverted without a known error";
  return `${revert.errorName}(${revert.errorArgs.map(String).join(", ")})`;
}
