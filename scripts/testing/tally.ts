import { z } from "zod";

/** How many tests passed, failed and were left out. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly pending: number;
}

const count = z.number().int().nonnegative();
const schema = z.object({ passed: count, failed: count, pending: count });

/**
 * The tally of one step from what its program wrote and how it ended. A program that fails without a failed test (a file
 * that does not load, a crash, a run that never ends) counts as one failure: nothing that went wrong adds up to a pass.
 * @param results text of the results file, `undefined` when the program wrote none.
 */
export function tallyStep(results: string | undefined, succeeded: boolean): Tally {
  const tally = results === undefined ? { passed: 0, failed: 0, pending: 0 } : schema.parse(JSON.parse(results));
  return succeeded && results !== undefined ? tally : { ...tally, failed: Math.max(tally.failed, 1) };
}

export function sumTallies(tallies: readonly Tally[]): Tally {
  return tallies.reduce(
    (sum, { passed, failed, pending }) => ({
      passed: sum.passed + passed,
      failed: sum.failed + failed,
      pending: sum.pending + pending,
    }),
    { passed: 0, failed: 0, pending: 0 },
  );
}

/** Why a run is no success, `undefined` when it is one. A run of nothing, or one that leaves tests out, proves nothing. */
export function faultOf({ passed, failed, pending }: Tally): string | undefined {
  if (failed > 0) return `${failed} failed`;
  if (pending > 0) return `${pending} pending: a test runs or is removed`;
  if (passed === 0) return "no test ran";
  return undefined;
}
