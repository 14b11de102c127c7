import { expect } from "chai";
import { Chooser } from "../support/choose.ts";
import { addressOf } from "../support/registry.ts";
import { fleet } from "../support/sketches.ts";

describe("the reason of a decision that chose nobody", () => {
  for (const config of [
    { name: "cheapest" },
    { name: "top_rep_cheapest" },
    { name: "least_inflight" },
    { name: "consistent_hash" },
    { name: "prefix_hash" },
    { name: "manual", provider: addressOf(1) },
  ] as const) {
    it(`names no choice with ${config.name}: an operator would look for a provider that there is not`, () => {
      const chooser = new Chooser(config, fleet(3));
      const selection = chooser.select({ affinityKey: "k", tried: new Set([1, 2, 3].map(addressOf)) });
      expect(selection.ranked).to.deep.equal([]);
      expect(selection.reason).to.equal("none_free");
    });
  }
});
