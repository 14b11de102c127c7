/** EIP-1559 fees of one transaction, wei per gas. */
export interface Fees {
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
}

/** Fees that stay good while the base fee doubles, at most `cap` wei per gas in all. */
export function feesFor(baseFeePerGas: bigint, priorityFee: bigint, cap: bigint): Fees {
  const wanted = 2n * baseFeePerGas + priorityFee;
  const maxFeePerGas = wanted < cap ? wanted : cap;
  return { maxFeePerGas, maxPriorityFeePerGas: priorityFee < maxFeePerGas ? priorityFee : maxFeePerGas };
}

/** One eighth more, and one wei so that a tiny fee grows too: nodes take a replacement only above +10 % of both fees. */
function raised(fee: bigint): bigint {
  return fee + fee / 8n + 1n;
}

/**
 * Fees of a replacement: at least one eighth above the last ones in both parts, and not below what the market asks now. Undefined
 * when that passes `cap`: then only waiting, or a person, can help.
 */
export function replacementFees(last: Fees, market: Fees, cap: bigint): Fees | undefined {
  const max = raised(last.maxFeePerGas);
  const priority = raised(last.maxPriorityFeePerGas);
  const maxFeePerGas = max > market.maxFeePerGas ? max : market.maxFeePerGas;
  const maxPriorityFeePerGas = priority > market.maxPriorityFeePerGas ? priority : market.maxPriorityFeePerGas;
  if (maxFeePerGas > cap) return undefined;
  return {
    maxFeePerGas,
    maxPriorityFeePerGas: maxPriorityFeePerGas < maxFeePerGas ? maxPriorityFeePerGas : maxFeePerGas,
  };
}
