import { expect } from "chai";
import { createPolicy, PolicyConfigError } from "../../../gateway/routing/create-policy.ts";
import {
  PolicyFileError,
  PolicyHolder,
  PolicyNotAllowedError,
  readPolicyFile,
} from "../../../gateway/routing/policy-file.ts";
import { policyNames } from "../../../gateway/routing/types.ts";
import { addressOf } from "./support/registry.ts";

const file = (value: unknown): string => JSON.stringify(value);

describe("the policy file", () => {
  const text = file({
    default: { name: "cheapest" },
    models: { "org/modèle": { name: "least_inflight" } },
    requests: { affinity: { name: "consistent_hash" }, pulsar: { name: "pulsar" } },
  });

  it("takes what the request asked for before its model's policy before the default", () => {
    const policies = readPolicyFile(text);
    expect(policies.policyFor("other").name).to.equal("cheapest");
    expect(policies.policyFor(undefined).name).to.equal("cheapest");
    expect(policies.policyFor("org/modèle").name).to.equal("least_inflight");
    expect(policies.policyFor("org/modèle", "Affinity ").name).to.equal("consistent_hash");
  });

  it("goes by the policy of 'auto' for a request that names no model: written there, it would else never be used, without a word", () => {
    const policies = readPolicyFile(
      file({ default: { name: "cheapest" }, models: { auto: { name: "least_inflight" } } }),
    );
    expect(policies.policyFor(undefined).name).to.equal("least_inflight");
    expect(policies.policyFor("other").name).to.equal("cheapest");
  });

  it("refuses a request's policy that is not on the list, even a valid name", () => {
    const policies = readPolicyFile(text);
    expect(() => policies.policyFor(undefined, "manual")).to.throw(PolicyNotAllowedError, "affinity, pulsar");
    expect(() => readPolicyFile(file({ default: { name: "cheapest" } })).policyFor(undefined, "cheapest")).to.throw(
      PolicyNotAllowedError,
      "none is allowed",
    );
  });

  it("is refused whole, with every fault named, so that a typing error never runs as a default", () => {
    const faulty = file({
      default: { name: "cheapest", explore: 1 },
      models: { m: { name: "pulsar", rendezvous_weight: "fastest" } },
      requests: {
        x: { name: "wait_and_widen", queue_limit_floor_ms: 10, queue_limit_ceil_ms: 5 },
        "BAD LABEL": { name: "cheapest" },
      },
      defualt: {},
    });
    expect(() => readPolicyFile(faulty))
      .to.throw(PolicyFileError)
      .and.satisfy(({ message }: Error) =>
        ["explore", "models.m.rendezvous_weight", "requests.x.queue_limit_ceil_ms", "BAD LABEL", "defualt"].every(
          (part) => message.includes(part),
        ),
      );
    expect(() => readPolicyFile("{")).to.throw(PolicyFileError, "not JSON");
    expect(() => readPolicyFile(file({}))).to.throw(PolicyFileError, "default");
  });

  it("is refused when a member is there twice, as only the last would be in force, without a word", () => {
    const policy = '{ "name": "cheapest" }';
    const twice = `{ "default": ${policy}, "models": { "a": ${policy}, "b": ${policy}, "a": { "name": "pulsar", "seed": 1, "seed": 2 } },
      "default": ${policy} }`;
    expect(() => readPolicyFile(twice))
      .to.throw(PolicyFileError)
      .and.satisfy(({ message }: Error) =>
        ["default: is given twice", "models.a: is given twice", "models.a.seed: is given twice"].every((part) =>
          message.includes(part),
        ),
      );
    expect(readPolicyFile(`{ "default": ${policy}, "models": { "default": ${policy} } }`).policyFor("a").name).to.equal(
      "cheapest",
    );
  });

  it("keeps the old policies when a reload is faulty, and takes over those that did not change", () => {
    const holder = new PolicyHolder(readPolicyFile(text));
    const running = holder.current.policyFor("org/modèle");
    const pulsar = holder.current.policyFor(undefined, "pulsar");
    expect(() => holder.reload("{")).to.throw(PolicyFileError);
    expect(holder.current.policyFor("org/modèle")).to.equal(running);
    holder.reload(
      file({ default: { name: "least_inflight", explore: 0.5 }, requests: { pulsar: { name: "pulsar", seed: 0 } } }),
    );
    expect(holder.current.policyFor("org/modèle").name).to.equal("least_inflight");
    expect(holder.current.policyFor("org/modèle"), "another setting is another policy").to.not.equal(running);
    expect(holder.current.policyFor(undefined, "pulsar"), "its ranking cache survives").to.equal(pulsar);
  });
});

describe("createPolicy", () => {
  it("builds every policy by its name", () => {
    for (const name of policyNames) {
      const config = name === "manual" ? { name, provider: addressOf(1) } : { name };
      expect(createPolicy(config).name).to.equal(name);
    }
  });

  it("refuses unknown fields and unknown names", () => {
    expect(() => createPolicy({ name: "pulsar", sed: 1 } as unknown as { name: "pulsar" })).to.throw(
      PolicyConfigError,
      "sed",
    );
    expect(() => createPolicy({ name: "fastest" } as unknown as { name: "pulsar" })).to.throw(PolicyConfigError);
    expect(() => createPolicy({ name: "manual", provider: "0x12" })).to.throw(PolicyConfigError, "provider");
  });
});
