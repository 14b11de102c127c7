import { expect } from "chai";
import { Disagreement, runHistory, type Tally } from "./harness.ts";
import { type Operation, randomHistory } from "./operations.ts";
import { shrink } from "./shrink.ts";
import type { ModelParameters } from "./state.ts";

/**
 * Random histories on the contracts and on the model. T4T_DIFFERENTIAL_HISTORIES (6) sets how many, T4T_DIFFERENTIAL_STEPS (150) how
 * long, T4T_DIFFERENTIAL_SEED where to begin: the seed of a failure, which is in its message, with one history repeats it.
 */
const HISTORIES = Number(process.env["T4T_DIFFERENTIAL_HISTORIES"] ?? 6);
const STEPS = Number(process.env["T4T_DIFFERENTIAL_STEPS"] ?? 150);
const SEED = Number(process.env["T4T_DIFFERENTIAL_SEED"] ?? 1);

const common = { timeToLive: 600n, minPayment: 1_000n, minDuration: 60n, ackWindow: 30n, responseWindow: 60n };
const parameterSets: readonly ModelParameters[] = [
  { ...common, minStake: 1_000n, unbondingPeriod: 3_800n, collateralBps: 10_000n, maxDuration: 3_600n },
  { ...common, minStake: 0n, unbondingPeriod: 3_691n, collateralBps: 5_000n, maxDuration: 3_600n },
  { ...common, minStake: 2_500n, unbondingPeriod: 500n, collateralBps: 3_333n, maxDuration: 400n },
  { ...common, minStake: 0n, unbondingPeriod: 3_800n, collateralBps: 0n, maxDuration: 3_600n },
];

describe("the contracts and a plain model of them agree", function () {
  this.timeout(HISTORIES * STEPS * 500 + 60_000);

  it("on every outcome, event and view of random histories", async () => {
    const reached = new Map<string, number>();
    for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
      const parameters = parameterSets[seed % parameterSets.length];
      if (parameters === undefined) throw new Error("no parameters");
      const history = randomHistory(seed, STEPS);
      add(reached, await runOrShrink(parameters, history, seed));
    }
    if (process.env["T4T_DIFFERENTIAL_TALLY"] !== undefined) {
      for (const [entry, count] of [...reached].toSorted(([a], [b]) => a.localeCompare(b))) console.log(entry, count);
    }
    // A history that reaches nothing agrees on everything.
    expect(reached.get("postJob ok") ?? 0).to.be.greaterThan(HISTORIES);
  });

  it("and the comparison notices: a model that holds a little less collateral is found out", async () => {
    const [parameters] = parameterSets;
    if (parameters === undefined) throw new Error("no parameters");
    const history = randomHistory(4, 60);
    let noticed: unknown;
    await runHistory({ ...parameters, collateralBps: parameters.collateralBps - 1n }, history, parameters).catch(
      (error: unknown) => {
        noticed = error;
      },
    );
    expect(noticed).to.be.instanceOf(Disagreement);
  });
});

/** On a failure, says it again with a short history that fails too. */
async function runOrShrink(parameters: ModelParameters, history: readonly Operation[], seed: number): Promise<Tally> {
  try {
    return await runHistory(parameters, history);
  } catch (error) {
    if (!(error instanceof Disagreement)) throw error;
    let last = error;
    const short = await shrink(history, async (part) => {
      const failure = await runHistory(parameters, part).then(
        () => undefined,
        (again: unknown) => again,
      );
      if (failure instanceof Disagreement) last = failure;
      return failure instanceof Disagreement;
    });
    const names = short.map(({ name, delay }) => `+${delay} ${name}`).join(", ");
    throw new Disagreement(`T4T_DIFFERENTIAL_SEED=${seed} fails; ${short.length} steps do: ${names}\n${last.message}`);
  }
}

function add(total: Map<string, number>, tally: Tally): void {
  for (const [entry, count] of tally) total.set(entry, (total.get(entry) ?? 0) + count);
}
