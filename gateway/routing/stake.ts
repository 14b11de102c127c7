/** What the collateral of a job depends on, of an offering. */
export interface OfferedTerms {
  readonly inputPrice: bigint;
  readonly outputPrice: bigint;
  readonly contextLength: number;
}

/**
 * Wei of stake that a request's job would hold of its provider. Grows, or stays, with either price and with the context. The bounds are for
 * judging many at once; the prices they are given are rounded to the nearest double, and they allow for that.
 */
export interface JobCollateral {
  /** At one offering, exactly. */
  at(terms: OfferedTerms): bigint;
  /** At most what `at` says of any offering with these prices and this context or greater ones. Finite inputs. */
  atLeast(inputPrice: number, outputPrice: number, contextLength: number): number;
  /** At least what `at` says of any offering with these prices and this context or smaller ones. Finite inputs. */
  atMost(inputPrice: number, outputPrice: number, contextLength: number): number;
}

/** More than half of what lies between two neighbouring doubles, relative to them. */
const halfStep = 2 ** -52;

/** A double that is not below an amount of wei, and equal to it up to 2^53. */
export function atMostDouble(wei: bigint): number {
  const nearest = Number(wei);
  return nearest > Number.MAX_SAFE_INTEGER ? nearest * (1 + halfStep) : nearest;
}

/** A double that is not above an amount of wei, and equal to it up to 2^53. */
export function atLeastDouble(wei: bigint): number {
  const nearest = Number(wei);
  return nearest > Number.MAX_SAFE_INTEGER ? nearest * (1 - halfStep) : nearest;
}

/**
 * Whether a candidate's stake cannot cover the request's job, whatever else it has open. What its open jobs hold of the stake is not
 * known here, so the chain may still refuse one that passes.
 */
export function isUnderstaked(
  candidate: OfferedTerms & { readonly stake: bigint },
  collateral: JobCollateral,
): boolean {
  const { stake, contextLength } = candidate;
  const input = Number(candidate.inputPrice);
  const output = Number(candidate.outputPrice);
  // Nearly always doubles tell it, in a tenth of the time.
  if (atLeastDouble(stake) >= collateral.atMost(input, output, contextLength)) return false;
  if (atMostDouble(stake) < collateral.atLeast(input, output, contextLength)) return true;
  return stake < collateral.at(candidate);
}
