import path from "node:path";
import { shrink } from "../../test/contracts/model/shrink.ts";
import type { BrokenRule, ForgeProject } from "./forge.ts";

/** Most tries to find fewer steps; each takes forge half a second. */
const TRIES = 100;

/**
 * Which rule broke, a few steps of the history after which one breaks too, and the command that prints what they call.
 * @param steps length of a history, for a rule that does not tell its step.
 */
export async function explain(project: ForgeProject, broken: BrokenRule, steps: number): Promise<string> {
  const { market, rule, step, seeds } = broken;
  const history = Array.from({ length: step === 0 ? steps : step }, (_, index) => index + 1);
  const few =
    seeds.length === 0
      ? []
      : await shrink(history, async (part) => (await project.replay(market, seeds, part)) !== undefined, TRIES);
  const folder = path.relative(process.cwd(), project.folder);
  return [
    `BROKEN in ${market}: ${rule} (step ${step} of the history ${seeds.join(",")})`,
    `  after these steps: ${few.join(", ")}. What they call:`,
    `  cd ${folder}; T4T_FUZZ_REPLAY=${[...seeds, ...few].join(",")} forge test --match-contract ${market} --match-test test_replay -vvvv`,
  ].join("\n");
}
