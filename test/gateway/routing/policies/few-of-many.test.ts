import { expect } from "chai";
import type { Address } from "viem";
import { Chooser } from "../support/choose.ts";
import { testModel } from "../support/registry.ts";
import { fleet, reportOf } from "../support/sketches.ts";

describe("a key of which no near neighbour fits, while several hundred of very many do", function () {
  this.timeout(60_000);
  // Of 20,000, 350 hold the prompt: of some keys none is among the 256 that are looked at first.
  const providers = fleet(20_000, (index) => ({
    models: { [testModel]: { contextLength: index % 57 === 7 ? 200_000 : 8192 } },
  }));

  for (const name of ["consistent_hash", "pulsar", "pulsar_wait_and_widen"] as const) {
    it(`has one provider with ${name}, whatever is drawn: else each of its requests computed its prompt anew`, () => {
      const chooser = new Chooser({ name }, providers);
      Object.assign(chooser.statistics, { totalInFlight: () => 0 });
      chooser.statistics.reported = () => reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });
      const first = new Map<string, Address | undefined>();
      for (let round = 0; round < 8; round += 1) {
        for (let index = 0; index < 300; index += 1) {
          const affinityKey = `conversation ${index}`;
          const chosen = chooser.first({ affinityKey, inputTokens: 100_000 });
          if (round === 0) first.set(affinityKey, chosen);
          else expect(chosen, affinityKey).to.equal(first.get(affinityKey));
        }
      }
      expect(new Set(first.values()).size, "different keys, different providers").to.be.greaterThan(150);
    });
  }
});
