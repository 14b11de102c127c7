import { expect } from "chai";
import { createPolicy, select } from "../../../gateway/routing/select.ts";
import { policyNames } from "../../../gateway/routing/types.ts";
import { MutableRegistry } from "./support/mutable-registry.ts";
import { addressOf } from "./support/registry.ts";
import { requestOf, seeded } from "./support/request.ts";
import { fleet, reportOf } from "./support/sketches.ts";
import { ScriptedStatistics } from "./support/statistics.ts";

describe("a decision on an older version", () => {
  const statistics = new ScriptedStatistics();
  statistics.reported = () => reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });

  for (const name of policyNames) {
    it(`is the same with ${name} after many have joined and left since: else a decision could not be told again`, () => {
      const registry = new MutableRegistry();
      const put = (from: number, to: number, openJobs: number) => {
        for (const sketch of fleet(to, () => ({ maxConcurrentJobs: 1, openJobs })).slice(from)) registry.put(sketch);
      };
      put(0, 100, 0);
      const version = registry.publish();
      const decide = (seed: number) => {
        const policy = createPolicy(name === "manual" ? { name, provider: addressOf(5) } : { name });
        return select(version, requestOf({ affinityKey: `key ${seed}` }), policy, statistics, 1, seeded(seed));
      };
      const before = Array.from({ length: 30 }, (_, seed) => decide(seed));
      put(100, 300, 0);
      registry.publish();
      put(50, 250, 1);
      for (let index = 0; index < 50; index += 1) registry.delete(addressOf(index + 1));
      registry.publish();
      before.forEach((selection, seed) => expect(decide(seed)).to.deep.equal(selection));
    });
  }
});
