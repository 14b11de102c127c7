import { expect } from "chai";
import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { createPolicy } from "../../../gateway/routing/select.ts";
import { waitingNeeds } from "../../../gateway/routing/waiting-needs.ts";
import { addressOf } from "./support/registry.ts";

const needs = (config: PolicyConfig, affinityKey?: string, tried: readonly number[] = [], offers = "1"): string =>
  waitingNeeds(createPolicy(config), { affinityKey, tried: new Set(tried.map(addressOf)) }, offers);

describe("what a waiting request needs", () => {
  it("is the key where each waits for its own provider: who waits for a full owner holds up nobody else", () => {
    const patient = { name: "pulsar_wait_and_widen", band_patience_ms: 300 } as const;
    expect(needs(patient, "a")).to.not.equal(needs(patient, "b"));
    expect(needs(patient, "a")).to.equal(needs(patient, "a"));
  });

  it("is not the key where any free provider will do: there nobody overtakes", () => {
    for (const name of ["pulsar_wait_and_widen", "pulsar", "consistent_hash", "least_inflight"] as const)
      expect(needs({ name }, "a"), name).to.equal(needs({ name }, "b"));
  });

  it("differs between policies of one name that are set differently", () => {
    const strict = { name: "wait_and_widen", queue_limit_ceil_ms: 10 } as const;
    expect(needs(strict)).to.not.equal(needs({ name: "wait_and_widen" }));
  });

  it("tells apart who has tried whom, in whatever order, and who fits which offers", () => {
    const any = { name: "cheapest" } as const;
    expect(needs(any, undefined, [1, 2])).to.equal(needs(any, undefined, [2, 1]));
    expect(needs(any, undefined, [1])).to.not.equal(needs(any));
    expect(needs(any, undefined, [], "2")).to.not.equal(needs(any));
  });
});
