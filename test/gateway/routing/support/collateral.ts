import type { JobCollateral } from "../../../../gateway/routing/stake.ts";

/** A job that holds so many wei of stake for each wei of the two prices and each token of context. Whole numbers; amounts up to 2^53 exact. */
export function collateralOf({ input = 0, output = 0, context = 0 }): JobCollateral {
  const inDoubles = (inputPrice: number, outputPrice: number, contextLength: number): number =>
    input * inputPrice + output * outputPrice + context * contextLength;
  return {
    at: ({ inputPrice, outputPrice, contextLength }) =>
      BigInt(input) * inputPrice + BigInt(output) * outputPrice + BigInt(context * contextLength),
    atLeast: (...terms) => inDoubles(...terms) * (1 - 1e-12),
    atMost: (...terms) => inDoubles(...terms) * (1 + 1e-12),
  };
}
