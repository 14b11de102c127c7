import { expect } from "chai";
import * as fc from "fast-check";
import type { Address } from "viem";
import { modelKeyOf } from "../../../protocol/model-key.ts";
import { heartbeatDueMs, heartbeatInterval } from "../../../provider/registration/heartbeat.ts";
import { type FoundPublication, planPublication, type WantedPublication } from "../../../provider/registration/plan.ts";
import type { OfferingConfig } from "../../../provider/settings/endpoints-source.ts";

const owner: Address = "0x00000000000000000000000000000000000000A1";

function offering(model: string, inputPrice = 1n): OfferingConfig {
  return {
    model,
    modelKey: modelKeyOf(model),
    backend: "b",
    backendModel: model,
    prices: { inputPrice, outputPrice: 2n },
    contextLength: 10,
  };
}

function offerings(...list: OfferingConfig[]): ReadonlyMap<string, OfferingConfig> {
  return new Map(list.map((one) => [one.model, one]));
}

const rules = { token: owner, minStake: 0n, timeToLive: 600, collateralBps: 10_000 };
const wanted: WantedPublication = {
  operator: owner,
  payout: owner,
  endpoint: "http://a",
  maxConcurrentJobs: 2,
  offerings: offerings(offering("m")),
  stake: 100n,
  reactivate: false,
};
const provider = {
  owner,
  operator: owner,
  active: true,
  endpoint: "http://a",
  maxConcurrentJobs: 2,
  openJobs: 0,
  stake: 100n,
  lastSeen: 1,
};
const published = (one: OfferingConfig) => ({ ...one, offeringId: 1 });
const same: FoundPublication = {
  provider,
  offerings: new Map([["m", published(offering("m"))]]),
  rules,
  balance: 1000n,
  allowance: 0n,
};

const kinds = (found: FoundPublication, change: Partial<WantedPublication> = {}, isOwner = true): string[] =>
  planPublication(found, { ...wanted, ...change }, isOwner).steps.map((step) => step.kind);

describe("planPublication", () => {
  it("takes no transaction when the chain says what the node wants", () => {
    expect(kinds(same)).to.deep.equal([]);
    expect(kinds(same, { stake: 50n }), "more stake than wanted is left alone").to.deep.equal([]);
  });

  it("takes one for a cap that differs, and for each other difference its own", () => {
    expect(kinds(same, { maxConcurrentJobs: 3 })).to.deep.equal(["setMaxConcurrentJobs"]);
    expect(kinds(same, { maxConcurrentJobs: 0 })).to.deep.equal(["setMaxConcurrentJobs"]);
    expect(kinds(same, { endpoint: "http://b" })).to.deep.equal(["setEndpoint"]);
    expect(kinds(same, { offerings: offerings(offering("m", 5n)) })).to.deep.equal(["setOffering"]);
    expect(kinds(same, { offerings: offerings(offering("n")) })).to.deep.equal(["removeOffering", "setOffering"]);
    expect(kinds(same, { stake: 150n })).to.deep.equal(["approve", "addStake"]);
    expect(kinds({ ...same, allowance: 50n }, { stake: 150n })).to.deep.equal(["addStake"]);
  });

  it("registers a new provider with its cap before its offerings, so that it is never found without one", () => {
    const fresh = { ...same, provider: undefined, offerings: new Map() };
    expect(kinds(fresh)).to.deep.equal(["approve", "register", "setMaxConcurrentJobs", "setOffering"]);
    expect(kinds(fresh, { maxConcurrentJobs: 0, stake: 0n })).to.deep.equal(["register", "setOffering"]);
  });

  it("stakes at least what the registry asks for", () => {
    const plan = planPublication({ ...same, provider: undefined, rules: { ...rules, minStake: 500n } }, wanted, true);
    expect(plan.steps).to.deep.include({ kind: "approve", amount: 500n });
  });

  it("says what stands in the way instead of sending what must fail", () => {
    const fresh = { ...same, provider: undefined };
    expect(planPublication({ ...fresh, balance: 99n }, wanted, true)).to.deep.include({ steps: [] });
    expect(planPublication({ ...fresh, balance: 99n }, wanted, true).obstacle).to.include("99");
    expect(planPublication(fresh, wanted, false).obstacle).to.include("owner");
  });

  it("with an operator's key does what an operator may, and warns of the rest", () => {
    const plan = planPublication(
      { ...same, provider: { ...provider, active: false } },
      { ...wanted, stake: 500n, maxConcurrentJobs: 9, reactivate: true },
      false,
    );
    expect(plan.steps.map((step) => step.kind)).to.deep.equal(["setMaxConcurrentJobs"]);
    expect(plan.warnings).to.have.length(2);
  });

  it("comes back from a deactivation only when it is told to", () => {
    const away = { ...same, provider: { ...provider, active: false } };
    expect(kinds(away)).to.deep.equal([]);
    expect(kinds(away, { reactivate: true })).to.deep.equal(["reactivate"]);
  });

  it("says that no job can be taken without stake where jobs hold stake, also while the wallet lacks it", () => {
    const bare = { ...same, provider: { ...provider, stake: 0n } };
    const unset = planPublication(bare, { ...wanted, stake: 0n }, true);
    expect(unset.noStake).to.include("until T4T_STAKE is set");
    expect(unset.warnings).to.deep.equal([unset.noStake]);
    const poor = planPublication({ ...bare, balance: 99n }, wanted, true);
    expect(poor.noStake).to.include("the wallet holds");
    expect(poor.warnings[0]).to.equal(
      "the wallet holds 99 of the 100 smallest units of the payment token missing to T4T_STAKE",
    );
    expect(planPublication(bare, wanted, false).noStake).to.include("the owner has added some");
    expect(planPublication(bare, wanted, true).noStake, "what is about to be staked counts").to.equal(undefined);
    const free = planPublication({ ...bare, rules: { ...rules, collateralBps: 0 } }, { ...wanted, stake: 0n }, true);
    expect(free).to.deep.include({ noStake: undefined, warnings: [] });
  });

  it("adds no stake to a provider whose owner has deactivated it, as it may be about to take its stake out", () => {
    const away = { ...same, provider: { ...provider, active: false, stake: 0n } };
    expect(kinds(away)).to.deep.equal([]);
    expect(kinds(away, { reactivate: true })).to.deep.equal(["approve", "addStake", "reactivate"]);
  });

  it("leads, step by step, to a chain that needs no more steps", () => {
    const set = fc.uniqueArray(
      fc.record({ model: fc.constantFrom("a", "b", "c", "d"), price: fc.bigInt({ min: 1n, max: 3n }) }),
      {
        selector: ({ model }) => model,
      },
    );
    fc.assert(
      fc.property(set, set, fc.nat({ max: 3 }), fc.nat({ max: 3 }), (before, after, capBefore, capAfter) => {
        const found: FoundPublication = {
          ...same,
          provider: { ...provider, maxConcurrentJobs: capBefore },
          offerings: new Map(before.map(({ model, price }) => [model, published(offering(model, price))])),
        };
        const want = {
          ...wanted,
          maxConcurrentJobs: capAfter,
          offerings: offerings(...after.map(({ model, price }) => offering(model, price))),
        };
        const state = new Map(found.offerings);
        let cap = capBefore;
        for (const step of planPublication(found, want, true).steps) {
          if (step.kind === "setMaxConcurrentJobs") cap = step.maxConcurrentJobs;
          else if (step.kind === "setOffering") state.set(step.offering.model, published(step.offering));
          else if (step.kind === "removeOffering") state.delete(step.model);
          else expect.fail(step.kind);
        }
        const done = { ...found, provider: { ...provider, maxConcurrentJobs: cap }, offerings: state };
        expect(planPublication(done, want, true).steps).to.deep.equal([]);
      }),
    );
  });
});

describe("the heartbeat's time", () => {
  it("is when lastSeen has come of age, and at most half the time to live", () => {
    expect(heartbeatDueMs(1000, 1000, 300_000)).to.equal(300_000);
    expect(heartbeatDueMs(1000, 1299, 300_000)).to.equal(1_000);
    expect(heartbeatDueMs(1000, 5000, 300_000)).to.equal(0);
    expect(heartbeatInterval(300_000, 600)).to.equal(300_000);
    expect(heartbeatInterval(300_000, 100)).to.equal(50_000);
  });
});
